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

}  // namespace meshwork
