#include "meshwork/session/session_graphs.h"

#include <algorithm>
#include <utility>

#include "meshwork/base/hash.h"
#include "meshwork/ir/rewrite.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/control/live_values.h"
#include "meshwork/ops/shape.h"
#include "meshwork/spmd/rewrite/simplify.h"

namespace meshwork {
namespace {

// A variable's random stream depends on its name, not on the other variables.
int64_t StreamOf(std::string_view name) { return static_cast<int64_t>(StableHash(name) >> 1); }

bool IsLinearAlgebra(std::string_view op) {
  return op == "qr" || op == "cholesky" || op == "triangular_solve";
}

// The arguments that `keeps` names, the nodes that are needed, and the outputs of `graph`. map: to the values of the copy.
template <typename Keeps>
Graph Copied(const Graph& graph, const Keeps& keeps, std::vector<ValueId>& map) {
  const std::vector<bool> live = LiveValues(graph);
  Graph copy(graph.mesh());
  copy.name = graph.name;
  map.assign(graph.values().size(), kNoValue);
  for (const Argument& argument : graph.arguments())
    if (keeps(argument))
      map[argument.value] =
          copy.AddArgument(graph.value(argument.value), argument.is_variable, argument.initializer);
  for (const Node& node : graph.nodes())
    if (live[node.results[0]]) CopyNode(graph, node, copy, map);
  for (const OutputInfo& output : graph.outputs()) copy.AddOutput({output.name, map[output.value]});
  return copy;
}

}  // namespace

Graph InitializerGraph(const Graph& graph, int64_t seed, const std::set<std::string>* chosen) {
  Graph init(graph.mesh());
  init.name = "initialize";
  for (const Argument& argument : graph.arguments()) {
    if (!argument.is_variable || !argument.initializer.has_value() || argument.initializer->build == nullptr)
      continue;
    const ValueInfo& info = graph.value(argument.value);
    if (chosen != nullptr && !chosen->contains(info.name)) continue;
    // A mistake of the initializer is reported at the variable's declaration.
    const LocationScope scope(init, info.location);
    const CallSite site{info.location.file.c_str(), info.location.line};
    const Variable variable = init.Var(info.name, *argument.initializer, SpecOf(*info.layout), site);
    init.Update(variable, argument.initializer->build(init, info.type, seed, StreamOf(info.name)), site);
  }
  return init;
}

InitializedWhere WhereToInitialize(const Graph& init) {
  std::vector<bool> by_algebra(init.values().size(), false);
  for (const Node& node : init.nodes()) {
    bool is = IsLinearAlgebra(node.row->name);
    for (const ValueId operand : node.operands) is = is || by_algebra[static_cast<size_t>(operand)];
    for (const ValueId result : node.results) by_algebra[static_cast<size_t>(result)] = is;
  }
  InitializedWhere where;
  for (const VariableUpdate& update : init.updates())
    (by_algebra[static_cast<size_t>(update.value)] ? where.on_host : where.others)
        .insert(init.argument_name(update.argument));
  return where;
}

Graph GatherGraph(const Graph& graph, const std::string& name) {
  Graph gather(graph.mesh());
  gather.name = "get";
  const ValueInfo& info = graph.value(graph.arguments()[graph.FindArgument(name)].value);
  const LocationScope scope(gather, info.location);
  const CallSite site{info.location.file.c_str(), info.location.line};
  const Variable variable = gather.Var(name, Initializer{.type = info.type}, SpecOf(*info.layout), site);
  gather.Output(name, Relayout(variable, LayoutSpec(info.type.shape.size(), UNSHARDED)), site);
  return gather;
}

Graph WithGatheredOutputs(Graph graph, const Graph& local, AxisSet across,
                          const std::set<std::string>& distributed) {
  graph.CutMesh(local.mesh());
  std::vector<OutputInfo> outputs = graph.outputs();
  graph.ClearOutputs();
  for (size_t o = 0; o < outputs.size(); ++o) {
    Layout layout = *local.value(local.outputs()[o].value).layout;
    // Outputs that lie whole in each domain are pinned, too: a compile with the gathers might cut them otherwise.
    if (layout.rank() > 0 && !distributed.contains(outputs[o].name)) {
      for (int d = 0; d < layout.rank(); ++d)
        if (layout.IsStrided(d) || AxisSet(layout.dim(d)).Intersects(across)) layout = layout.WithDim(d, {});
      const int gather = graph
                             .TryAdd(GetOp("relayout"), {{outputs[o].value}}, {{"layout", LayoutPin{layout}}},
                                     graph.value(outputs[o].value).location)
                             .value();
      outputs[o].value = graph.nodes()[gather].results[0];
    }
    graph.AddOutput(std::move(outputs[o]));
  }
  return graph;
}

Graph EvaluationGraph(const Graph& graph, const std::vector<std::string>& outputs, bool accumulates) {
  Graph whole = WithoutTraining(graph);
  const std::vector<VariableUpdate> updates = whole.updates();
  whole.ClearUpdates();
  if (!outputs.empty()) {
    const std::vector<OutputInfo> all = whole.outputs();
    whole.ClearOutputs();
    for (const OutputInfo& output : all)
      if (std::find(outputs.begin(), outputs.end(), output.name) != outputs.end()) whole.AddOutput(output);
  }
  const std::vector<bool> live = LiveValues(whole);
  std::vector<ValueId> map;
  Graph evaluation = Copied(
      whole, [&](const Argument& argument) { return argument.is_variable || live[argument.value]; }, map);
  evaluation.name = "evaluate";
  for (const VariableUpdate& update : updates) {
    const std::string& name = whole.argument_name(update.argument);
    if (accumulates && live[update.value] && name.starts_with(kMetricPrefix))
      evaluation.AddUpdate({evaluation.FindArgument(name), map[update.value], update.location});
  }
  return evaluation;
}

Graph WithoutUnreadVariables(const Graph& graph) {
  const std::vector<bool> live = LiveValues(graph);
  std::vector<ValueId> map;
  return Copied(
      graph, [&](const Argument& argument) { return !argument.is_variable || live[argument.value]; }, map);
}

int64_t BatchRowsOf(const Graph& graph) {
  for (const Argument& argument : graph.arguments()) {
    const Shape& shape = graph.value(argument.value).type.shape;
    if (!argument.is_variable && !shape.empty()) return shape[0];
  }
  return 0;
}

void LayOutVariables(const Graph& local, Graph& graph) {
  graph.CutMesh(local.mesh());
  for (size_t a = 0; a < local.arguments().size(); ++a) {
    if (!local.arguments()[a].is_variable) continue;
    ValueInfo& info = graph.mutable_value(graph.arguments()[a].value);
    info.layout = local.value(local.arguments()[a].value).layout;
    info.modes.clear();
  }
}

}  // namespace meshwork
