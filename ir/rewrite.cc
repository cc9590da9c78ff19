#include "meshwork/ir/rewrite.h"

#include <algorithm>
#include <numeric>

#include "meshwork/base/status.h"

namespace meshwork {

Rewriter::Rewriter(const Graph& from, size_t more)
    : from_(from), to_(from.mesh()), map_(from.values().size(), kNoValue) {
  to_.name = from.name;
  to_.Reserve(from.nodes().size() + more);
  for (const Argument& argument : from.arguments())
    map_[argument.value] =
        to_.AddArgument(from.value(argument.value), argument.is_variable, argument.initializer);
}

ValueId Rewriter::Map(ValueId from) const {
  MESHWORK_CHECK(map_[from] != kNoValue, "value {} is read before it is defined", from);
  return map_[from];
}

absl::InlinedVector<ValueId, 4> Rewriter::Map(std::span<const ValueId> from) const {
  absl::InlinedVector<ValueId, 4> to;
  for (ValueId id : from) to.push_back(Map(id));
  return to;
}

int Rewriter::Copy(const Node& node) {
  const int index = to_.AddCopy(from_, node);
  Node& copy = to_.mutable_node(index);
  for (ValueId& id : copy.operands) id = Map(id);
  for (size_t i = 0; i < node.results.size(); ++i) map_[node.results[i]] = copy.results[i];
  return index;
}

Graph Rewriter::Finish() && {
  for (const VariableUpdate& update : from_.updates()) to_.AddUpdate({update.argument, Map(update.value)});
  for (const OutputInfo& output : from_.outputs()) to_.AddOutput({output.name, Map(output.value)});
  return std::move(to_);
}

void CopyNode(const Graph& from, const Node& node, Graph& to, std::vector<ValueId>& map) {
  Node& copy = to.mutable_node(to.AddCopy(from, node));
  for (ValueId& id : copy.operands) id = map[id];
  for (size_t r = 0; r < node.results.size(); ++r) map[node.results[r]] = copy.results[r];
}

std::vector<ValueId> AppendWith(Graph& graph, ValueId from, ValueId to, std::span<const ValueId> wanted) {
  const size_t nodes = graph.nodes().size();
  std::vector<bool> follows(graph.values().size(), false), is_read = follows;
  const auto any = [](const std::vector<bool>& of_value, const auto& ids) {
    return std::any_of(ids.begin(), ids.end(), [&](ValueId id) { return of_value[id]; });
  };
  follows[from] = true;
  for (const Node& node : graph.nodes())
    if (any(follows, node.operands))
      for (ValueId id : node.results) follows[id] = true;
  for (ValueId id : wanted) is_read[id] = true;
  for (size_t n = nodes; n-- > 0;)
    if (const Node& node = graph.nodes()[n]; any(is_read, node.results))
      for (ValueId id : node.operands) is_read[id] = true;
  std::vector<ValueId> map(graph.values().size());
  std::iota(map.begin(), map.end(), 0);
  map[from] = to;
  for (size_t n = 0; n < nodes; ++n) {
    const Node node = graph.nodes()[n];  // a copy: the list grows
    if (any(follows, node.operands) && any(is_read, node.results)) CopyNode(graph, node, graph, map);
  }
  std::vector<ValueId> found;
  for (ValueId id : wanted) found.push_back(map[id]);
  return found;
}

}  // namespace meshwork
