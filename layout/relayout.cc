#include "layout/relayout.h"

#include <algorithm>
#include <optional>

#include "base/status.h"

namespace meshwork {
namespace {

bool IsPrefix(const AxisList& prefix, const AxisList& list) {
  return prefix.size() <= list.size() && std::equal(prefix.begin(), prefix.end(), list.begin());
}

AxisList Append(AxisList list, int axis) {
  list.push_back(axis);
  return list;
}

class Planner {
 public:
  Planner(const Layout& from, const Layout& to, const Shape& shape) : at_(from), to_(to), shape_(shape) {}

  RelayoutPlan Plan() {
    while (at_ != to_) {
      std::optional<RelayoutStep> step = Slice();
      if (!step) step = Permute();
      if (!step) step = AllToAll();
      if (!step) step = ReduceScatter();
      if (!step) step = AllReduce(/*unwanted_only=*/true);
      if (!step) step = AllGather();
      if (!step) step = AllReduce(/*unwanted_only=*/false);
      MESHWORK_CHECK(step.has_value(), "{} -> {}", at_.ToString(), to_.ToString());
      step->wire_elements = WireElements(*step);
      plan_.wire_elements += step->wire_elements;
      at_ = step->result;
      plan_.steps.push_back(*std::move(step));
    }
    return std::move(plan_);
  }

 private:
  // The next axis the target wants on dim d, if what is there is a prefix of the wish.
  std::optional<int> NextWanted(int d) const {
    if (!IsPrefix(at_.dim(d), to_.dim(d)) || at_.dim(d).size() == to_.dim(d).size()) return std::nullopt;
    return to_.dim(d)[at_.dim(d).size()];
  }

  // All axes in a row that the device can cut by itself, as one step.
  std::optional<RelayoutStep> Slice() const {
    const AxisSet used = at_.ShardedAxes().Union(at_.PartialAxes());
    for (int d = 0; d < at_.rank(); ++d) {
      Layout result = at_;
      AxisList axes;
      while (IsPrefix(result.dim(d), to_.dim(d)) && result.dim(d).size() < to_.dim(d).size()) {
        const int axis = to_.dim(d)[result.dim(d).size()];
        if (used.Contains(axis)) break;
        axes.push_back(axis);
        result = result.WithDim(d, Append(result.dim(d), axis));
      }
      if (!axes.empty()) return RelayoutStep{RelayoutKind::kShardSlice, axes, d, -1, ReduceOp::kSum, result};
    }
    return std::nullopt;
  }

  // Blocks keep their shape and bounds: they only change places.
  std::optional<RelayoutStep> Permute() const {
    const Layout result = Layout(to_.mesh(), to_.dims(), {});
    if (result == at_.WithoutPartials() || result.ShardedAxes().Intersects(at_.PartialAxes()))
      return std::nullopt;
    for (int d = 0; d < at_.rank(); ++d) {
      if (at_.dim(d) == to_.dim(d)) continue;
      if (at_.NumShards(d) != to_.NumShards(d) || at_.IsPadded(shape_, d) || to_.IsPadded(shape_, d))
        return std::nullopt;
    }
    return RelayoutStep{RelayoutKind::kCollectivePermute,   {}, -1, -1, ReduceOp::kSum,
                        result.WithPartials(at_.partials())};
  }

  // The minor axis of one dim is the next wish of another.
  std::optional<RelayoutStep> AllToAll() const {
    for (int d = 0; d < at_.rank(); ++d) {
      if (at_.dim(d).empty() || IsPrefix(at_.dim(d), to_.dim(d))) continue;
      const int axis = at_.dim(d).back();
      for (int e = 0; e < at_.rank(); ++e) {
        if (e == d || NextWanted(e) != axis) continue;
        AxisList rest = at_.dim(d);
        rest.pop_back();
        return RelayoutStep{RelayoutKind::kAllToAll,
                            {axis},
                            d,
                            e,
                            ReduceOp::kSum,
                            at_.WithDim(d, rest).WithDim(e, Append(at_.dim(e), axis))};
      }
    }
    return std::nullopt;
  }

  std::optional<RelayoutStep> ReduceScatter() const {
    for (const Partial& partial : at_.partials()) {
      for (int d = 0; d < at_.rank(); ++d) {
        if (NextWanted(d) != partial.axis) continue;
        return RelayoutStep{RelayoutKind::kReduceScatter,
                            {partial.axis},
                            d,
                            -1,
                            partial.op,
                            WithoutPartial({partial.axis}).WithDim(d, Append(at_.dim(d), partial.axis))};
      }
    }
    return std::nullopt;
  }

  // All owed reductions of one kind at once. `unwanted_only`: leave axes that the target shards by,
  // a reduce-scatter may take them later.
  std::optional<RelayoutStep> AllReduce(bool unwanted_only) const {
    AxisList axes;
    std::optional<ReduceOp> op;
    for (const Partial& partial : at_.partials()) {
      const PartialSet& kept = to_.partials();
      if (std::find(kept.begin(), kept.end(), partial) != kept.end()) continue;
      if (unwanted_only && to_.ShardedAxes().Contains(partial.axis)) continue;
      if (!op.has_value()) op = partial.op;
      if (partial.op == *op) axes.push_back(partial.axis);
    }
    if (axes.empty()) return std::nullopt;
    return RelayoutStep{RelayoutKind::kAllReduce, axes, -1, -1, *op, WithoutPartial(axes)};
  }

  // Everything beyond the common prefix, which is minor, at once.
  std::optional<RelayoutStep> AllGather() const {
    for (int d = 0; d < at_.rank(); ++d) {
      const AxisList& have = at_.dim(d);
      const AxisList& wish = to_.dim(d);
      size_t common = 0;
      while (common < have.size() && common < wish.size() && have[common] == wish[common]) ++common;
      if (common == have.size()) continue;
      return RelayoutStep{RelayoutKind::kAllGather,
                          AxisList(have.begin() + common, have.end()),
                          d,
                          -1,
                          ReduceOp::kSum,
                          at_.WithDim(d, AxisList(have.begin(), have.begin() + common))};
    }
    return std::nullopt;
  }

  Layout WithoutPartial(const AxisList& axes) const {
    PartialSet rest;
    for (const Partial& partial : at_.partials())
      if (!AxisSet(axes).Contains(partial.axis)) rest.push_back(partial);
    return at_.WithPartials(rest);
  }

  int64_t WireElements(const RelayoutStep& step) const {
    const int64_t n = at_.mesh().GroupSize(step.axes);
    const int64_t before = NumElements(at_.LocalShape(shape_)),
                  after = NumElements(step.result.LocalShape(shape_));
    switch (step.kind) {
      case RelayoutKind::kShardSlice: return 0;
      case RelayoutKind::kCollectivePermute: return before;
      case RelayoutKind::kAllReduce: return ShareOfOthers(2 * before, n);
      case RelayoutKind::kAllGather: return ShareOfOthers(after, n);
      case RelayoutKind::kReduceScatter:
      case RelayoutKind::kAllToAll: break;
    }
    return ShareOfOthers(before, n);
  }

  Layout at_;
  const Layout& to_;
  const Shape& shape_;
  RelayoutPlan plan_;
};

}  // namespace

std::string_view RelayoutKindName(RelayoutKind kind) {
  constexpr std::string_view kNames[] = {"shard_slice",    "collective_permute", "all_to_all",
                                         "reduce_scatter", "all_reduce",         "all_gather"};
  return kNames[static_cast<int>(kind)];
}

absl::StatusOr<RelayoutPlan> PlanRelayout(const Layout& from, const Layout& to, const Shape& shape) {
  MESHWORK_CHECK(from.mesh() == to.mesh() && from.rank() == to.rank() &&
                 from.rank() == static_cast<int>(shape.size()));
  for (const Partial& partial : to.partials()) {
    const PartialSet& owed = from.partials();
    if (std::find(owed.begin(), owed.end(), partial) == owed.end())
      return InvalidArgument(
          "PlanRelayout {} -> {}: the target owes a {} over \"{}\" that the source does not; "
          "only whole values can become partial by computation.",
          from.ToString(), to.ToString(), ReduceOpName(partial.op), from.mesh().axis(partial.axis).name);
  }
  return Planner(from, to, shape).Plan();
}

}  // namespace meshwork
