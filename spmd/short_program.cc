#include "meshwork/spmd/short_program.h"

#include <utility>

namespace meshwork {

std::optional<ShortProgram> Shortened(const Graph& graph, const Fold& fold) {
  if (!fold.folds()) return std::nullopt;
  ShortProgram made{Graph(graph.mesh())};
  made.graph.name = graph.name;
  std::vector<ValueId> map(graph.values().size(), kNoValue);  // of values that stay
  std::vector<int> arguments(graph.arguments().size(), -1);   // of those that stay, their indices
  for (size_t i = 0; i < graph.arguments().size(); ++i) {
    const Argument& argument = graph.arguments()[i];
    if (fold.value_of[argument.value] != argument.value) continue;
    arguments[i] = static_cast<int>(made.graph.arguments().size());
    map[argument.value] =
        made.graph.AddArgument(graph.value(argument.value), argument.is_variable, argument.initializer);
  }
  const FoldedNodes nodes(graph, fold);
  for (int n = 0; n < nodes.size(); ++n) {
    const Node& whole = graph.nodes()[fold.first[n]];
    Node& node = made.graph.mutable_node(made.graph.AddCopy(graph, whole));
    node.operands.clear();
    for (ValueId id : nodes[n].operands) {
      if (map[id] == kNoValue) return std::nullopt;
      node.operands.push_back(map[id]);
    }
    for (size_t r = 0; r < whole.results.size(); ++r) map[whole.results[r]] = node.results[r];
  }
  for (const VariableUpdate& update : graph.updates()) {
    if (arguments[update.argument] < 0) continue;
    // Else layers are left out whose weights stay.
    if (fold.value_of[update.value] != update.value) return std::nullopt;
    made.graph.AddUpdate({arguments[update.argument], map[update.value], update.location});
  }
  for (const OutputInfo& output : graph.outputs())
    if (fold.value_of[output.value] == output.value) made.graph.AddOutput({output.name, map[output.value]});
  for (ValueId id : fold.value_of) made.value_of.push_back(map[id]);
  made.node_of = fold.class_of;
  return made;
}

Graph LaidOutAs(const ShortProgram& shortened, const Graph& laid_out, const Graph& whole) {
  Graph graph = whole;
  for (ValueId id = 0; id < static_cast<ValueId>(graph.values().size()); ++id) {
    ValueInfo& info = graph.mutable_value(id);
    info.layout = laid_out.value(shortened.value_of[id]).layout;
    info.modes.clear();
  }
  return graph;
}

std::vector<std::optional<Choice>> ChoicesOfWhole(const ShortProgram& shortened,
                                                  const std::vector<std::optional<Choice>>& choices) {
  std::vector<std::optional<Choice>> all;
  all.reserve(shortened.node_of.size());
  for (int n : shortened.node_of) all.push_back(choices[n]);
  return all;
}

}  // namespace meshwork
