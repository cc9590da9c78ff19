#include "meshwork/spmd/keep_weights.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "meshwork/ir/row.h"
#include "meshwork/spmd/plan_step.h"
#include "meshwork/spmd/planner/decisions.h"
#include "meshwork/spmd/planner/replication.h"

namespace meshwork {
namespace {

// Values after a pinned result may meet the next weight. Few programs need more rounds than this.
constexpr int kMaxRounds = 4;

// A cut of an op's result along a letter along which a weight is cut, by the same axes.
struct Wish {
  ValueId weight = kNoValue;
  ValueId result = kNoValue;
  int dim = 0;
  AxisList axes;
};

bool IsLocked(const ValueInfo& info, int d) {
  return info.layout.has_value() && LayoutPin{*info.layout, info.modes}.mode(d) == DimMode::kLocked;
}

// The axes by which the user has cut the value.
AxisSet LockedAxes(const ValueInfo& info) {
  return info.layout.has_value() ? info.layout->ShardedAxes() : AxisSet();
}

// The cuts of results with which weights of more than `budget` bytes can stay as they lie.
std::vector<Wish> WishesOf(const Graph& pinned, const Graph& propagated, int64_t budget) {
  const Replication replication(pinned, budget);
  std::vector<Wish> wishes;
  for (const Node& node : pinned.nodes()) {
    const auto is_bound = [&](ValueId id) { return replication.IsBoundWeight(id); };
    if (node.row->name == "relayout" || std::none_of(node.operands.begin(), node.operands.end(), is_bound))
      continue;
    const Rule rule = RuleOf(pinned, node);
    auto visit = [&](ValueId weight, const LetterList& letters, ValueId result, const LetterList& kept) {
      const Layout& lies = *propagated.value(weight).layout;
      for (int d = 0; d < lies.rank(); ++d) {
        if (letters[d] == kNoLetter || rule.letters[letters[d]].whole || lies.IsStrided(d)) continue;
        const AxisList& axes = lies.dim(d);
        const Letter& letter = rule.letters[letters[d]];
        const bool divides = letter.size % pinned.mesh().GroupSize(axes) == 0;
        if (axes.empty() || (letter.must_divide && !divides)) continue;
        for (int to = 0; to < static_cast<int>(kept.size()); ++to) {
          const ValueInfo& info = pinned.value(result);
          if (kept[to] != letters[d] || IsLocked(info, to) || LockedAxes(info).Intersects(AxisSet(axes)))
            continue;
          if (propagated.value(result).layout->Factors(to, 1) != lies.Factors(d, 1))
            wishes.push_back({weight, result, to, axes});
        }
      }
    };
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const ValueId id = node.operands[i];
      if (!is_bound(id)) continue;
      for (size_t r = 0; r < node.results.size(); ++r)
        visit(id, rule.operands[i], node.results[r], rule.results[r]);
    }
  }
  return wishes;
}

// Pins the result. Returns false if it has a pin for another weight already.
bool Pin(Graph& graph, const Wish& wish) {
  ValueInfo& info = graph.mutable_value(wish.result);
  const auto rank = static_cast<size_t>(info.type.rank());
  if (!info.layout.has_value()) {
    info.layout = Layout::Replicated(graph.mesh(), info.type.rank());
    info.modes.assign(rank, DimMode::kOpen);
  }
  if (IsLocked(info, wish.dim) || LockedAxes(info).Intersects(AxisSet(wish.axes))) return false;
  info.layout = info.layout->WithDim(wish.dim, wish.axes);
  info.modes[wish.dim] = DimMode::kLocked;
  return true;
}

}  // namespace

std::vector<std::string> KeepWeights(Graph& pinned, PropagateResult& result, const Topology& topology,
                                     int64_t budget) {
  std::vector<Wish> wishes = WishesOf(pinned, result.graph, budget);
  if (wishes.empty()) return {};
  Graph kept = pinned;
  PropagateResult tried = result;
  std::vector<std::string> decisions;
  for (int round = 0; round < kMaxRounds; ++round) {
    const size_t before = decisions.size();
    for (const Wish& wish : wishes)
      if (Pin(kept, wish))
        decisions.push_back(fmt::format("{} dim {} = {}: so lies {}, which must not be gathered",
                                        NameOf(kept, wish.result), wish.dim,
                                        kept.mesh().AxesToString(wish.axes), NameOf(kept, wish.weight)));
    if (decisions.size() == before) break;
    tried = Propagate(kept);
    wishes = WishesOf(kept, tried.graph, budget);
  }
  if (decisions.empty() ||
      !(PlanCost(kept, tried.graph, topology, budget) < PlanCost(pinned, result.graph, topology, budget)))
    return {};
  pinned = std::move(kept);
  result = std::move(tried);
  return decisions;
}

}  // namespace meshwork
