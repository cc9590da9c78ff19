#include "meshwork/ir/readers.h"

namespace meshwork {

Readers ReadersOf(const Graph& graph, std::span<const ValueId> contents) {
  const auto content = [&](ValueId id) { return contents.empty() ? id : contents[id]; };
  const size_t values = graph.values().size();
  Readers all;
  all.exits_.resize(values, 0);
  for (const VariableUpdate& update : graph.updates()) ++all.exits_[content(update.value)];
  for (const OutputInfo& output : graph.outputs()) ++all.exits_[content(output.value)];
  // First where the readers of each value end; then, from the last reader to the first, where they begin.
  all.begins_.resize(values + 1, 0);
  for (const Node& node : graph.nodes())
    for (ValueId id : node.operands) ++all.begins_[content(id)];
  size_t end = 0;
  for (size_t& begin : all.begins_) begin = end += begin;
  all.readers_.resize(end);
  for (size_t n = graph.nodes().size(); n-- > 0;) {
    const Node& node = graph.nodes()[n];
    for (size_t i = node.operands.size(); i-- > 0;)
      all.readers_[--all.begins_[content(node.operands[i])]] = {static_cast<int>(n), static_cast<int>(i)};
  }
  return all;
}

}  // namespace meshwork
