#include "meshwork/spmd/planner/move_seconds.h"

#include <algorithm>
#include <utility>

#include "meshwork/ir/local.h"
#include "meshwork/ir/program_cost.h"
#include "meshwork/ir/row.h"
#include "meshwork/layout/relayout.h"
#include "meshwork/layout/relayout_cost.h"
#include "meshwork/ops/control/loops.h"
#include "meshwork/spmd/planner/cut.h"
#include "meshwork/spmd/planner/strided.h"

namespace meshwork {
namespace {

constexpr int64_t kFewElements = 16;  // so few that a fraction of an element matters

bool IsSmaller(const Graph& graph, const Node& node) {
  int64_t bytes = 0;
  for (ValueId id : node.operands) bytes += graph.value(id).type.bytes();
  return !node.operands.empty() && bytes < graph.value(node.results[0]).type.bytes();
}

double MoveSecondsWithin(int depth, const Graph& graph, ValueId id, const Layout& to,
                         const Topology& topology);

std::optional<double> ElsewhereSecondsWithin(int depth, const Graph& graph, ValueId id, const Layout& to,
                                             const Topology& topology) {
  if (depth == 0 || graph.value(id).node < 0) return std::nullopt;
  const Node& node = graph.nodes()[graph.value(id).node];
  const std::optional<std::vector<Layout>> operands = OperandsElsewhere(graph, node, to);
  if (!operands.has_value()) return std::nullopt;
  const auto shards = static_cast<double>(graph.mesh().GroupSize(to.ShardedAxes().ToList()));
  double seconds = FlopsOf(graph, node) / shards / topology.flops();
  for (size_t i = 0; i < operands->size(); ++i)
    seconds += MoveSecondsWithin(depth - 1, graph, node.operands[i], (*operands)[i], topology);
  return seconds;
}

double MoveSecondsWithin(int depth, const Graph& graph, ValueId id, const Layout& to,
                         const Topology& topology) {
  const ValueInfo& info = graph.value(id);
  const double seconds = RelayoutSeconds(*info.layout, to, info.type, topology);
  if (seconds == 0) return 0;
  return std::min(seconds, ElsewhereSecondsWithin(depth, graph, id, to, topology).value_or(seconds));
}

// With the assumed topology: the bytes that a plan sends, as seconds. `is_picked`: see RelayoutSeconds.
double SecondsOf(const RelayoutPlan& plan, const Layout& from, const Type& type, bool is_picked) {
  const int64_t size = DTypeSize(type.dtype);
  const int64_t owed_size = is_picked ? size : DTypeSize(CarriedDType(type.dtype, from.partials()));
  int64_t bytes = 0;
  const Layout* at = &from;
  const Shape* shape = &type.shape;
  for (const RelayoutStep& step : plan.steps) {
    const int64_t element = at->is_partial() ? owed_size : size;
    // Plans round a device's share down to whole elements. If these are few, the share is computed in bytes instead.
    if (step.axes.empty() || step.wire_elements > kFewElements) {
      bytes += step.wire_elements * element;
    } else {
      const int64_t shared =
          NumElements(step.kind == RelayoutKind::kAllGather ? step.result.LocalShape(step.shape)
                                                            : at->LocalShape(*shape)) *
          element;
      bytes += WireElementsOf(step.kind, shared, shared, step.result.mesh().GroupSize(step.axes));
    }
    at = &step.result;
    shape = &step.shape;
  }
  return static_cast<double>(bytes) / Topology::kAssumedLink.bandwidth;
}

// The plan of the greedy order. It rarely sends more than the plan that Localize writes.
RelayoutPlan GreedyPlan(const Layout& from, const Layout& to, const Type& type) {
  RelayoutOptions options;  // one plan for all types
  options.search = false;
  return PlanRelayout(from, to, type.shape, options).value();
}

// The plan by a known topology.
RelayoutPlan TimedPlan(const Layout& from, const Layout& to, const Type& type, const Topology& topology,
                       bool search, bool is_picked = false) {
  const int64_t size = DTypeSize(is_picked ? type.dtype : CarriedDType(type.dtype, from.partials()));
  return PlanRelayout(from, to, type.shape, {.search = search, .topology = topology, .element_bytes = size})
      .value();
}

// Whether no plan can send fewer bytes, because some device must receive as many. False if blocks are uneven: then a
// plan may count fewer elements than a device with a short block receives.
bool SendsTheLeast(const RelayoutPlan& plan, const Layout& from, const Layout& to, const Shape& shape) {
  if (from.is_partial() || from.is_strided() || to.is_strided()) return false;
  for (const Layout* layout : {&from, &to})
    for (int d = 0; d < layout->rank(); ++d)
      if (shape[d] % layout->mesh().GroupSize(layout->dim(d)) != 0) return false;
  return plan.wire_elements <= AllToAllVTraffic(from.mesh(), from.dims(), to.dims(), shape).received;
}

}  // namespace

double RelayoutSeconds(const Layout& from, const Layout& to, const Type& type, const Topology& topology,
                       bool is_picked) {
  if (from == to) return 0;
  // A cheaper plan of more collectives is no reason to run an op otherwise, as long as nothing says what a
  // collective costs.
  if (topology.is_assumed()) return SecondsOf(GreedyPlan(from, to, type), from, type, is_picked);
  return TimedPlan(from, to, type, topology, /*search=*/true, is_picked).seconds;
}

double RoughSeconds(const Layout& from, const Layout& to, const Type& type, const Topology& topology) {
  if (from == to || topology.is_assumed()) return RelayoutSeconds(from, to, type, topology);
  return TimedPlan(from, to, type, topology, /*search=*/false).seconds;
}

double LeastSeconds(const Layout& from, const Layout& to, const Type& type, const Topology& topology,
                    SearchWork* work) {
  if (from == to) return 0;
  const auto searched = [&](const RelayoutPlan& plan) {
    if (work != nullptr) work->Take(kEntriesPerStep * static_cast<double>(plan.looked_at));
    return plan;
  };
  if (!topology.is_assumed()) return searched(TimedPlan(from, to, type, topology, /*search=*/true)).seconds;
  const RelayoutPlan greedy = GreedyPlan(from, to, type);
  const double seconds = SecondsOf(greedy, from, type, /*is_picked=*/false);
  if (greedy.steps.size() < 2 || seconds == 0 || SendsTheLeast(greedy, from, to, type.shape)) return seconds;
  const RelayoutPlan plan = searched(PlanRelayout(from, to, type.shape).value());
  return std::min(seconds, SecondsOf(plan, from, type, /*is_picked=*/false));
}

int CountCollectives(const Layout& from, const Layout& to, const Type& type,
                     std::optional<RelayoutKind> but) {
  const RelayoutPlan plan = PlanRelayout(from, to, type.shape).value();
  const auto free = std::count_if(plan.steps.begin(), plan.steps.end(),
                                  [&](const RelayoutStep& step) { return step.kind == but; });
  return RelayoutCosts(from.mesh(), {}, DTypeSize(type.dtype)).Of(from, plan.steps).collectives -
         static_cast<int>(free);
}

double LinkSeconds(const StepCost& cost, const Topology& topology) {
  return topology.is_assumed() ? static_cast<double>(cost.bytes) / Topology::kAssumedLink.bandwidth
                               : cost.seconds;
}

std::optional<std::vector<Layout>> OperandsElsewhere(const Graph& graph, const Node& node, const Layout& to) {
  if (IsMark(node) || node.row->kind != OpKind::kCompute || node.results.size() != 1 ||
      node.row->name == "reshape" || !IsSmaller(graph, node))
    return std::nullopt;
  const Rule rule = RuleOf(graph, node);
  LetterCuts cuts(rule.letters.size(), Whole());
  for (size_t d = 0; d < rule.results[0].size(); ++d) {
    Cut cut = to.Factors(static_cast<int>(d), 1);
    if (cut == Whole()) continue;
    const int l = rule.results[0][d];
    if (l == kNoLetter || !MayBeCut(graph.mesh(), *node.row, rule.letters[l], cut)) return std::nullopt;
    cuts[l] = std::move(cut);
  }
  const bool reduces = std::any_of(rule.letters.begin(), rule.letters.end(),
                                   [](const Letter& letter) { return letter.reduced; });
  if (reduces || !AreExchangeable(rule, cuts)) return std::nullopt;
  std::vector<Layout> operands;
  for (const LetterList& letters : rule.operands) operands.push_back(LayoutOf(graph.mesh(), letters, cuts));
  return operands;
}

std::optional<double> ElsewhereSeconds(const Graph& graph, ValueId id, const Layout& to,
                                       const Topology& topology) {
  return ElsewhereSecondsWithin(kMaxElsewhere, graph, id, to, topology);
}

double MoveSeconds(const Graph& graph, ValueId id, const Layout& to, const Topology& topology) {
  return MoveSecondsWithin(kMaxElsewhere, graph, id, to, topology);
}

}  // namespace meshwork
