#include "meshwork/layout/relayout.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/layout/relayout_cost.h"
#include "meshwork/layout/relayout_search.h"

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

class RelayoutPlanner {
 public:
  RelayoutPlanner(const Layout& from, const Layout& to, const Shape& shape)
      : at_(from), to_(to), shape_(shape) {}

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

  // Whether the target cuts dim d as `layout` does, and possibly further.
  bool IsPrefix(const Layout& layout, int d) const {
    const AxisList& have = layout.dim(d);
    const AxisList& wish = to_.dim(d);
    return have.size() <= wish.size() && std::equal(have.begin(), have.end(), wish.begin()) &&
           NestsAt(wish, have.size(), d);
  }

  // The next axes that the target has on dim d, if the axes there now are a prefix of the target's: one axis,
  // or the parts of one axis that must be added together (Nests).
  AxisList NextWanted(const Layout& layout, int d) const {
    const AxisList& wish = to_.dim(d);
    const size_t begin = layout.dim(d).size();
    if (!IsPrefix(layout, d) || begin == wish.size()) return {};
    size_t end = begin + 1;
    while (!NestsAt(wish, end, d)) ++end;
    return From(First(wish, end), begin);
  }

  // The minor axes of dim d: one axis, or the parts of one axis that must be removed together (Nests).
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
    return WireElementsOf(step.kind, NumElements(at_.LocalShape(shape_)),
                          NumElements(step.result.LocalShape(shape_)), at_.mesh().GroupSize(step.axes));
  }

  Layout at_;
  const Layout& to_;
  const Shape& shape_;
};

// ---- Strided dims.

// Splits a factor of s·t elements into one of s and one of t that together are cut in the same way; nothing
// if there is no such pair.
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
  // If axes cut the minor factor, each device must have one element of the major factor.
  const bool fits =
      count == factor.axes.size() || (shards == s && Nests(mesh, factor.axes, count, factor.size));
  if (!fits) return std::nullopt;
  return std::pair(Factor{s, First(factor.axes, count)}, Factor{factor.size / s, From(factor.axes, count)});
}

struct FactorPair {
  FactorList from, to;  // of equal sizes
};

// The coarsest factors in which both lists can be written; nothing if there are none.
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

// ---- Plans.

// Steps, and a lower bound of the cost of any plan.
struct Steps {
  std::vector<RelayoutStep> steps;
  RelayoutCost lower_bound = {};
  int64_t looked_at = 0;
};

// Appends the steps of `more`; two reshapes in a row are one.
void Append(Steps& plan, Steps more) {
  for (RelayoutStep& step : more.steps) {
    if (!plan.steps.empty() && step.kind == RelayoutKind::kReshape &&
        plan.steps.back().kind == RelayoutKind::kReshape)
      plan.steps.pop_back();
    plan.steps.push_back(std::move(step));
  }
  plan.looked_at += more.looked_at;
}

// The options and the costs by which every part of a plan is made.
struct Terms {
  const RelayoutOptions& options;
  RelayoutCosts costs;
};

// Whether other steps than the greedy ones may cost less. A single collective without slices sends no more
// than it has to. With slices around it, some of the elements sent may be cut away; if nothing is reduced, no
// plan sends less than the device that lacks most elements must receive.
bool MayBeBeaten(const Layout& from, const Layout& to, const Shape& shape, const RelayoutCost& cost,
                 const std::vector<RelayoutStep>& steps) {
  if (cost.seconds > 0) return true;
  if (cost.wire_elements == 0) return false;
  if (cost.collectives > 1) return true;
  if (steps.size() == 1) return false;
  if (from.partials() != to.partials()) return steps.back().kind == RelayoutKind::kShardSlice;
  return cost.wire_elements > AllToAllVTraffic(from.mesh(), from.dims(), to.dims(), shape).received;
}

// Between plain layouts: the greedy order, unless the search finds a cheaper one.
Steps PlanPlain(const Layout& from, const Layout& to, const Shape& shape, const Terms& terms) {
  Steps greedy{RelayoutPlanner(from, to, shape).Plan()};
  RelayoutCost cost = terms.costs.Of(from, greedy.steps);
  greedy.lower_bound = cost;
  const int64_t peak = terms.options.peak_elements;
  const bool fits = PeakOf(from, greedy.steps, shape) <= peak;
  if (!terms.options.search || (fits && !MayBeBeaten(from, to, shape, cost, greedy.steps))) return greedy;
  if (!fits) {
    cost = kNoCost;
  } else if (cost.seconds == 0 && cost.collectives == 1) {
    --cost.wire_elements;  // several collectives instead of one round down more often
  }
  RelayoutSearch search = SearchRelayout(from, to, shape, terms.costs, cost, peak);
  if (search.steps.has_value()) return {*std::move(search.steps), search.lower_bound, search.looked_at};
  greedy.looked_at = search.looked_at;
  if (!search.is_complete) greedy.lower_bound = std::min(greedy.lower_bound, search.lower_bound);
  return greedy;
}

Steps PlanSteps(const Layout& from, const Layout& to, const Shape& shape, const Terms& terms) {
  if (from == to) return {};
  if (!from.is_strided() && !to.is_strided()) return PlanPlain(from, to, shape, terms);
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
  Steps plan;
  if (from_dims.size() < kept.size()) {
    const Layout middle = Layout::Strided(from.mesh(), kept, to.partials());
    Append(plan, PlanSteps(from, middle, shape, terms));
    Append(plan, PlanSteps(middle, to, shape, terms));
    return plan;
  }
  Shape spread;
  const Layout flat_from = Spread(from, from_dims, spread), flat_to = Spread(to, to_dims, spread);
  Append(plan, {{{.kind = RelayoutKind::kReshape, .result = flat_from, .shape = spread}}});
  Steps flat = PlanPlain(flat_from, flat_to, spread, terms);
  plan.lower_bound = flat.lower_bound;
  Append(plan, std::move(flat));
  Append(plan, {{{.kind = RelayoutKind::kReshape, .result = to, .shape = shape}}});
  return plan;
}

// A plan that makes the reductions, gathers the whole tensor, and cuts it anew.
Steps ByGathering(const Layout& from, const Layout& to, const Shape& shape, const Terms& terms) {
  const Layout gathered = Layout::Replicated(from.mesh(), from.rank()).WithPartials(to.partials());
  Steps plan = PlanSteps(from, gathered, shape, terms);
  Append(plan, PlanSteps(gathered, to, shape, terms));
  return plan;
}

// Plans are asked for again and again, by every layer of a model.
class PlanCache {
 public:
  const RelayoutPlan* Find(const Layout& from, const Layout& to, const Shape& shape,
                           const RelayoutOptions& options) const {
    const auto [begin, end] = plans_.equal_range(HashOf(from, to, shape));
    for (auto it = begin; it != end; ++it) {
      const Entry& entry = it->second;
      if (entry.options == options && entry.shape == shape && entry.from.mesh() == from.mesh() &&
          entry.from == from && entry.to == to)
        return &entry.plan;
    }
    return nullptr;
  }
  const RelayoutPlan& Add(const Layout& from, const Layout& to, const Shape& shape,
                          const RelayoutOptions& options, RelayoutPlan plan) {
    if (plans_.size() >= kMaxPlans) plans_.clear();
    return plans_.emplace(HashOf(from, to, shape), Entry{from, to, shape, options, std::move(plan)})
        ->second.plan;
  }

 private:
  static constexpr size_t kMaxPlans = 4096;
  struct Entry {
    Layout from, to;
    Shape shape;
    RelayoutOptions options;
    RelayoutPlan plan;
  };
  static uint64_t Mix(uint64_t hash, uint64_t x) { return (hash ^ x) * 0x9e3779b97f4a7c15u + (hash >> 29); }
  static uint64_t HashOf(const Layout& from, const Layout& to, const Shape& shape) {
    uint64_t hash = 0;
    for (int64_t size : shape) hash = Mix(hash, static_cast<uint64_t>(size));
    for (const Layout* layout : {&from, &to}) {
      for (int d = 0; d < layout->rank(); ++d) {
        for (const Factor& factor : layout->Factors(d, shape[d])) {
          hash = Mix(hash, 1000 + static_cast<uint64_t>(factor.size));
          for (int axis : factor.axes) hash = Mix(hash, static_cast<uint64_t>(axis));
        }
      }
      for (const Partial& partial : layout->partials()) hash = Mix(hash, 2000 + partial.axis);
    }
    return hash;
  }

  std::unordered_multimap<uint64_t, Entry> plans_;
};

RelayoutPlan MakePlan(const Layout& from, const Layout& to, const Shape& shape,
                      const RelayoutOptions& options) {
  const Terms terms{options, RelayoutCosts(from.mesh(), options.topology, options.element_bytes)};
  Steps best = PlanSteps(from, to, shape, terms);
  RelayoutCost cost = terms.costs.Of(from, best.steps);
  // If dims are shorter than the axes that cut them, blocks are mostly padding, and the greedy order gathers
  // too late. For strided dims, the search considers only layouts of their common factors.
  if ((!options.search || from.is_strided() || to.is_strided()) && cost.wire_elements > 0) {
    Steps other = ByGathering(from, to, shape, terms);
    const int64_t looked_at = best.looked_at + other.looked_at;
    const RelayoutCost other_cost = terms.costs.Of(from, other.steps);
    const bool fits = PeakOf(from, best.steps, shape) <= options.peak_elements;
    const bool other_fits = PeakOf(from, other.steps, shape) <= options.peak_elements;
    const bool is_cheaper =
        std::pair(other_cost.seconds, other_cost.wire_elements) < std::pair(cost.seconds, cost.wire_elements);
    if (is_cheaper && (other_fits || !fits)) {
      best = std::move(other);
      cost = other_cost;
    }
    best.lower_bound = {};
    best.looked_at = looked_at;
  }
  RelayoutPlan plan{.wire_elements = cost.wire_elements,
                    .seconds = terms.costs.Seconds(from, best.steps),
                    .lower_bound = options.topology.is_assumed() ? best.lower_bound.wire_elements : 0,
                    .seconds_lower_bound = best.lower_bound.seconds,
                    .peak_elements = PeakOf(from, best.steps, shape),
                    .looked_at = best.looked_at};
  plan.steps = std::move(best.steps);
  return plan;
}

}  // namespace

std::string_view RelayoutKindName(RelayoutKind kind) {
  constexpr std::string_view kNames[] = {"shard_slice",    "collective_permute", "all_to_all", "all_to_all_v",
                                         "reduce_scatter", "all_reduce",         "all_gather", "reshape"};
  return kNames[static_cast<int>(kind)];
}

absl::StatusOr<RelayoutPlan> PlanRelayout(const Layout& from, const Layout& to, const Shape& shape,
                                          const RelayoutOptions& options) {
  thread_local PlanCache cache;
  if (options.use_cache)
    if (const RelayoutPlan* known = cache.Find(from, to, shape, options)) return *known;
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
  const int64_t ends = std::max(NumElements(from.LocalShape(shape)), NumElements(to.LocalShape(shape)));
  RelayoutOptions resolved = options;
  if (resolved.peak_elements <= 0) resolved.peak_elements = std::max(2 * ends, RelayoutOptions::kAlwaysFits);
  RelayoutPlan plan = MakePlan(from, to, shape, resolved);
  return options.use_cache ? cache.Add(from, to, shape, options, std::move(plan)) : plan;
}

}  // namespace meshwork
