#include "meshwork/spmd/planner/kept_values.h"

#include <algorithm>

#include "meshwork/ir/row.h"
#include "meshwork/ops/control/loops.h"

namespace meshwork {
namespace {

// Whether the results of the node are kept: it computes from kept values and scalars alone, and the results have as
// many elements as these values.
bool GivesKept(const Graph& graph, const Node& node, const std::vector<bool>& kept,
               const std::vector<bool>& carries) {
  if (!ReadsKeptAlone(graph, node, kept)) return false;
  for (ValueId to : node.results)
    if (carries[to]) return false;
  for (ValueId from : node.operands)
    for (ValueId to : node.results)
      if (kept[from] && graph.value(from).global.num_elements() != graph.value(to).global.num_elements())
        return false;
  return true;
}

}  // namespace

bool IsKeptVariable(const Graph& graph, const Argument& argument) {
  return argument.is_variable && graph.value(argument.value).gather == Gathering::kOnUse;
}

bool ReadsKeptAlone(const Graph& graph, const Node& node, const std::vector<bool>& kept) {
  bool any = false;
  for (ValueId id : node.operands) {
    if (!kept[id] && graph.value(id).type.rank() > 0) return false;
    any |= kept[id];
  }
  return any && node.row->kind == OpKind::kCompute;
}

std::vector<bool> CarriesOf(const Graph& graph) {
  std::vector<bool> carries(graph.values().size(), false);
  for (const Node& node : graph.nodes())
    if (LeavesCarry(node)) carries[node.operands[1]] = true;
  return carries;
}

void MarkKept(const Graph& graph, const Node& node, const std::vector<bool>& carries,
              std::vector<bool>& kept) {
  if (!GivesKept(graph, node, kept, carries)) return;
  for (ValueId id : node.results) kept[id] = true;
}

std::vector<bool> KeptValues(const Graph& graph) {
  std::vector<bool> kept(graph.values().size(), false);
  for (const Argument& argument : graph.arguments()) kept[argument.value] = IsKeptVariable(graph, argument);
  const std::vector<bool> carries = CarriesOf(graph);
  for (const Node& node : graph.nodes()) MarkKept(graph, node, carries, kept);
  return kept;
}

bool MovesKept(const Node& node, const std::vector<bool>& kept) {
  return node.row->kind != OpKind::kCompute &&
         std::any_of(node.operands.begin(), node.operands.end(), [&](ValueId id) { return kept[id]; });
}

bool IsUse(const Node& node, const std::vector<bool>& kept) {
  if (node.row->name != "relayout" || !MovesKept(node, kept)) return false;
  const LayoutPin& pin = node.attrs.Get<LayoutPin>("layout");
  for (int d = 0; d < pin.layout.rank(); ++d)
    if (pin.mode(d) != DimMode::kOpen) return false;
  return true;
}

bool GathersOnUse(const Graph& graph) {
  return std::any_of(graph.arguments().begin(), graph.arguments().end(),
                     [&](const Argument& argument) { return IsKeptVariable(graph, argument); });
}

}  // namespace meshwork
