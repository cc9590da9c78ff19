#include "meshwork/spmd/short_program.h"

#include <utility>

#include "meshwork/ir/program_cost.h"
#include "meshwork/ir/row.h"
#include "meshwork/spmd/planner/replication.h"
#include "meshwork/spmd/planner/solve_layouts.h"

namespace meshwork {
namespace {

constexpr size_t kLeastNodes = 64;  // of a program that is shortened

}  // namespace

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
    const bool stays = arguments[update.argument] >= 0;
    if (stays != (fold.value_of[update.value] == update.value)) return std::nullopt;
    if (!stays) continue;
    made.graph.AddUpdate({arguments[update.argument], map[update.value], update.location});
  }
  for (const OutputInfo& output : graph.outputs())
    if (fold.value_of[output.value] == output.value) made.graph.AddOutput({output.name, map[output.value]});
  for (ValueId id : fold.value_of) made.value_of.push_back(map[id]);
  made.node_of = fold.class_of;
  return made;
}

std::optional<ShortProgram> ShortProgramOf(const Graph& pinned, int64_t replication_budget, int kept) {
  if (pinned.nodes().size() < kLeastNodes) return std::nullopt;
  std::optional<ShortProgram> made =
      Shortened(pinned, RepeatsOf(pinned, pinned, {}, Replication(pinned, replication_budget), kept));
  if (made.has_value() && 2 * made->graph.nodes().size() > pinned.nodes().size()) return std::nullopt;
  return made;
}

bool FitsTogether(const ShortProgram& shortened, const Graph& laid_out, const Graph& whole) {
  for (size_t n = 0; n < whole.nodes().size(); ++n) {
    const Node &node = whole.nodes()[n], &alike = laid_out.nodes()[shortened.node_of[n]];
    for (size_t i = 0; i < node.operands.size(); ++i)
      if (laid_out.value(shortened.value_of[node.operands[i]]).layout !=
          laid_out.value(alike.operands[i]).layout)
        return false;
  }
  return true;
}

void PinLikeShort(const ShortProgram& shortened, const Graph& pinned, Graph& whole) {
  for (ValueId id = 0; id < static_cast<ValueId>(whole.values().size()); ++id) {
    const ValueInfo& alike = pinned.value(shortened.value_of[id]);
    ValueInfo& info = whole.mutable_value(id);
    info.layout = alike.layout;
    info.modes = alike.modes;
  }
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

double SecondsInWhole(const ShortProgram& shortened, const InsertedRelayouts& inserted) {
  std::vector<double> times(shortened.graph.values().size(), 0);
  for (ValueId id : shortened.value_of) ++times[id];
  double sum = 0;
  for (const InsertedRelayouts::Moved& moved : inserted.moved) sum += times[moved.value] * moved.seconds;
  return sum;
}

double WireBytesOfWhole(const ShortProgram& shortened, const Graph& local,
                        const InsertedRelayouts& inserted) {
  double halos = 0, others = 0, once = 0;
  for (const Node& node : local.nodes())
    if (node.row->kind == OpKind::kCollective)
      (node.row->name == "exchange" ? halos : others) +=
          static_cast<double>(WireTraffic(local, node).busiest());
  for (const InsertedRelayouts::Moved& moved : inserted.moved) once += moved.seconds;
  return halos + others * (once > 0 ? SecondsInWhole(shortened, inserted) / once : 1);
}

std::vector<std::optional<Choice>> ChoicesOfWhole(const ShortProgram& shortened,
                                                  const std::vector<std::optional<Choice>>& choices) {
  std::vector<std::optional<Choice>> all;
  all.reserve(shortened.node_of.size());
  for (int n : shortened.node_of) all.push_back(choices[n]);
  return all;
}

}  // namespace meshwork
