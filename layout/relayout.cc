#include "layout/relayout.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/status.h"

namespace meshwork {
namespace {

AxisList Concat(AxisList a, const AxisList& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

AxisList First(const AxisList& axes, size_t count) {
  return AxisList(axes.begin(), axes.begin() + static_cast<int64_t>(count));
}
AxisList From(const AxisList& axes, size_t begin) {
  return AxisList(axes.begin() + static_cast<int64_t>(begin), axes.end());
}

class Planner {
 public:
  Planner(const Layout& from, const Layout& to, const Shape& shape) : at_(from), to_(to), shape_(shape) {}

  std::vector<RelayoutStep> Plan() {
    std::vector<RelayoutStep> steps;
    while (at_ != to_) {
      std::optional<RelayoutStep> step = Slice();
      if (!step) step = Permute();
      if (!step) step = AllToAll();
      if (!step) step = ReduceScatter();
      if (!step) step = AllReduce();
      if (!step) step = AllGather();
      MESHWORK_CHECK(step.has_value(), "{} -> {}", at_.ToString(), to_.ToString());
      step->wire_elements = WireElements(*step);
      step->shape = shape_;
      at_ = step->result;
      steps.push_back(*std::move(step));
    }
    return steps;
  }

 private:
  bool NestsAt(const AxisList& axes, size_t count, int d) const {
    return Nests(to_.mesh(), axes, count, shape_[d]);
  }

  // Whether the blocks that dim d has are those of the target, cut less often.
  bool IsPrefix(const Layout& layout, int d) const {
    const AxisList& have = layout.dim(d);
    const AxisList& wish = to_.dim(d);
    return have.size() <= wish.size() && std::equal(have.begin(), have.end(), wish.begin()) &&
           NestsAt(wish, have.size(), d);
  }

  // The next axes the target wants on dim d, if what is there is a prefix of the wish: one, or as many parts
  // of one axis as go together.
  AxisList NextWanted(const Layout& layout, int d) const {
    const AxisList& wish = to_.dim(d);
    const size_t begin = layout.dim(d).size();
    if (!IsPrefix(layout, d) || begin == wish.size()) return {};
    size_t end = begin + 1;
    while (!NestsAt(wish, end, d)) ++end;
    return From(First(wish, end), begin);
  }

  // The minor axes of dim d: one, or as many parts of one axis as go together.
  AxisList Minor(int d) const {
    const AxisList& have = at_.dim(d);
    size_t begin = have.size() - 1;
    while (!NestsAt(have, begin, d)) --begin;
    return From(have, begin);
  }

  // All axes in a row that the device can cut by itself, as one step.
  std::optional<RelayoutStep> Slice() const {
    const AxisSet used = at_.ShardedAxes().Union(at_.PartialAxes());
    for (int d = 0; d < at_.rank(); ++d) {
      Layout result = at_;
      AxisList axes;
      while (true) {
        const AxisList next = NextWanted(result, d);
        if (next.empty() || used.Intersects(AxisSet(next))) break;
        axes = Concat(axes, next);
        result = result.WithDim(d, Concat(result.dim(d), next));
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

  // The minor axes of one dim are the next wish of another.
  std::optional<RelayoutStep> AllToAll() const {
    for (int d = 0; d < at_.rank(); ++d) {
      if (at_.dim(d).empty() || IsPrefix(at_, d)) continue;
      const AxisList minor = Minor(d);
      for (int e = 0; e < at_.rank(); ++e) {
        if (e == d || NextWanted(at_, e) != minor) continue;
        const AxisList rest = First(at_.dim(d), at_.dim(d).size() - minor.size());
        return RelayoutStep{RelayoutKind::kAllToAll,
                            minor,
                            d,
                            e,
                            ReduceOp::kSum,
                            at_.WithDim(d, rest).WithDim(e, Concat(at_.dim(e), minor))};
      }
    }
    return std::nullopt;
  }

  std::optional<RelayoutStep> ReduceScatter() const {
    for (int d = 0; d < at_.rank(); ++d) {
      const AxisList next = NextWanted(at_, d);
      if (next.empty() || !AxisSet(next).Minus(at_.PartialAxes()).empty()) continue;
      return RelayoutStep{RelayoutKind::kReduceScatter,
                          next,
                          d,
                          -1,
                          at_.partials()[0].op,
                          WithoutPartial(next).WithDim(d, Concat(at_.dim(d), next))};
    }
    return std::nullopt;
  }

  // All owed reductions at once. Leaving some to a reduce-scatter that a gather makes room for would send
  // more: the gather at least doubles what is then reduced.
  std::optional<RelayoutStep> AllReduce() const {
    AxisList axes;
    for (const Partial& partial : at_.partials())
      if (!to_.PartialAxes().Contains(partial.axis)) axes.push_back(partial.axis);
    if (axes.empty()) return std::nullopt;
    return RelayoutStep{RelayoutKind::kAllReduce, axes, -1, -1, at_.partials()[0].op, WithoutPartial(axes)};
  }

  // Everything beyond the common prefix, which is minor, at once.
  std::optional<RelayoutStep> AllGather() const {
    for (int d = 0; d < at_.rank(); ++d) {
      const AxisList& have = at_.dim(d);
      const AxisList& wish = to_.dim(d);
      size_t common = 0;
      while (common < have.size() && common < wish.size() && have[common] == wish[common]) ++common;
      while (!NestsAt(have, common, d) || !NestsAt(wish, common, d)) --common;
      if (common == have.size()) continue;
      return RelayoutStep{RelayoutKind::kAllGather,           From(have, common), d, -1, ReduceOp::kSum,
                          at_.WithDim(d, First(have, common))};
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
      case RelayoutKind::kReshape:
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
};

// ---- Strided dims.

// A factor of s·t elements as one of s and one of t that are cut alike; nothing if no such pair is.
std::optional<std::pair<Factor, Factor>> SplitFactor(const Mesh& mesh, const Factor& factor, int64_t s) {
  if (factor.size == s) return std::pair(factor, Factor{1, {}});
  if (factor.size % s != 0) return std::nullopt;
  int64_t shards = 1;
  size_t count = 0;
  for (; count < factor.axes.size(); ++count) {
    const int64_t more = shards * mesh.axis(factor.axes[count]).size;
    if (s % more != 0) break;
    shards = more;
  }
  // Axes that cut the minor factor find one element of the major one on each device.
  const bool fits =
      count == factor.axes.size() || (shards == s && Nests(mesh, factor.axes, count, factor.size));
  if (!fits) return std::nullopt;
  return std::pair(Factor{s, First(factor.axes, count)}, Factor{factor.size / s, From(factor.axes, count)});
}

struct FactorPair {
  FactorList from, to;  // of equal sizes
};

// The coarsest factors in which both can be said; nothing if there are none.
std::optional<FactorPair> CommonFactors(const Mesh& mesh, FactorList from, FactorList to) {
  FactorPair common;
  for (size_t i = 0, j = 0; i < from.size() || j < to.size();) {
    // Where one list has ended, the other has factors of one element only.
    const Factor a = i < from.size() ? from[i] : Factor{1, {}}, b = j < to.size() ? to[j] : Factor{1, {}};
    const int64_t size = std::min(a.size, b.size);
    const auto have = SplitFactor(mesh, a, size), wish = SplitFactor(mesh, b, size);
    if (!have.has_value() || !wish.has_value()) return std::nullopt;
    common.from.push_back(have->first);
    common.to.push_back(wish->first);
    if (a.size == size) ++i;
    else from[i] = have->second;
    if (b.size == size) ++j;
    else to[j] = wish->second;
  }
  return common;
}

// A strided layout with a dim per factor of `dims`.
Layout Spread(const Layout& like, const std::vector<FactorList>& dims, Shape& shape) {
  std::vector<AxisList> axes;
  shape.clear();
  for (const FactorList& factors : dims) {
    for (const Factor& factor : factors) {
      shape.push_back(factor.size);
      axes.push_back(factor.axes);
    }
  }
  return Layout(like.mesh(), std::move(axes), like.partials());
}

// Appends `more`; two reshapes in a row are one.
void Append(std::vector<RelayoutStep>& steps, std::vector<RelayoutStep> more) {
  for (RelayoutStep& step : more) {
    if (!steps.empty() && step.kind == RelayoutKind::kReshape && steps.back().kind == RelayoutKind::kReshape)
      steps.pop_back();
    steps.push_back(std::move(step));
  }
}

std::vector<RelayoutStep> PlanSteps(const Layout& from, const Layout& to, const Shape& shape) {
  if (from == to) return {};
  if (!from.is_strided() && !to.is_strided()) return Planner(from, to, shape).Plan();
  std::vector<FactorList> from_dims, to_dims;
  std::vector<FactorList> kept;  // the dims of `from`, those without common factors whole
  for (int d = 0; d < from.rank(); ++d) {
    const FactorList have = from.Factors(d, shape[d]), wish = to.Factors(d, shape[d]);
    std::optional<FactorPair> common = CommonFactors(from.mesh(), have, wish);
    kept.push_back(common.has_value() ? have : FactorList{{shape[d], {}}});
    if (!common.has_value()) continue;
    from_dims.push_back(std::move(common->from));
    to_dims.push_back(std::move(common->to));
  }
  std::vector<RelayoutStep> steps;
  if (from_dims.size() < kept.size()) {
    const Layout middle = Layout::Strided(from.mesh(), kept, to.partials());
    Append(steps, PlanSteps(from, middle, shape));
    Append(steps, PlanSteps(middle, to, shape));
    return steps;
  }
  Shape spread;
  const Layout flat_from = Spread(from, from_dims, spread), flat_to = Spread(to, to_dims, spread);
  Append(steps, {{.kind = RelayoutKind::kReshape, .result = flat_from, .shape = spread}});
  Append(steps, Planner(flat_from, flat_to, spread).Plan());
  Append(steps, {{.kind = RelayoutKind::kReshape, .result = to, .shape = shape}});
  return steps;
}

RelayoutPlan PlanOf(std::vector<RelayoutStep> steps) {
  RelayoutPlan plan{.steps = std::move(steps)};
  for (const RelayoutStep& step : plan.steps) plan.wire_elements += step.wire_elements;
  return plan;
}

}  // namespace

std::string_view RelayoutKindName(RelayoutKind kind) {
  constexpr std::string_view kNames[] = {"shard_slice", "collective_permute", "all_to_all", "reduce_scatter",
                                         "all_reduce",  "all_gather",         "reshape"};
  return kNames[static_cast<int>(kind)];
}

absl::StatusOr<RelayoutPlan> PlanRelayout(const Layout& from, const Layout& to, const Shape& shape) {
  MESHWORK_CHECK(from.mesh() == to.mesh() && from.Fits(shape).ok() && to.Fits(shape).ok(), "{} -> {} for {}",
                 from.ToString(), to.ToString(), ShapeToString(shape));
  for (const Partial& partial : to.partials()) {
    const PartialSet& owed = from.partials();
    if (std::find(owed.begin(), owed.end(), partial) == owed.end())
      return InvalidArgument(
          "PlanRelayout {} -> {}: the target owes a {} over \"{}\" that the source does not; "
          "only whole values can become partial by computation.",
          from.ToString(), to.ToString(), ReduceOpName(partial.op), from.mesh().axis(partial.axis).name);
  }
  RelayoutPlan plan = PlanOf(PlanSteps(from, to, shape));
  if (plan.wire_elements == 0) return plan;
  // Where dims are shorter than the axes that cut them, blocks are mostly padding and gathering may cost
  // less.
  const Layout gathered = Layout::Replicated(from.mesh(), from.rank()).WithPartials(to.partials());
  std::vector<RelayoutStep> steps = PlanSteps(from, gathered, shape);
  Append(steps, PlanSteps(gathered, to, shape));
  RelayoutPlan other = PlanOf(std::move(steps));
  return other.wire_elements < plan.wire_elements ? other : plan;
}

}  // namespace meshwork
