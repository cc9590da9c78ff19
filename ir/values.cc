#include "meshwork/ir/values.h"

namespace meshwork {

std::vector<Value> ValuesOf(Graph& graph, std::span<const ValueId> ids) {
  std::vector<Value> values;
  for (ValueId id : ids) values.emplace_back(&graph, id);
  return values;
}

void MayBeGathered(const Value& x) {
  if (!x.valid()) return;
  Gathering& gather = x.graph()->mutable_value(x.id()).gather;
  if (gather == Gathering::kWithinBudget) gather = Gathering::kAllowed;
}

std::vector<int> CountReaders(const Graph& graph) {
  std::vector<int> readers(graph.values().size(), 0);
  for (const Node& node : graph.nodes())
    for (ValueId operand : node.operands) ++readers[operand];
  for (const VariableUpdate& update : graph.updates()) ++readers[update.value];
  for (const OutputInfo& output : graph.outputs()) ++readers[output.value];
  return readers;
}

}  // namespace meshwork
