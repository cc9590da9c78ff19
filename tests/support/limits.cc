#include "support/limits.h"

#include <utility>

#include "meshwork/ir/regions.h"
#include "meshwork/ir/rewrite.h"
#include "meshwork/ir/row.h"

namespace meshwork {
namespace {

// Every device has it whole.
ValueInfo ScalarInfo(const Mesh& mesh, DType dtype) {
  return {.type = {dtype, {}}, .global = {dtype, {}}, .layout = Layout::Replicated(mesh, 0)};
}

ValueId AddOne(Graph& graph, const OpRow& row, std::initializer_list<ValueId> operands, Attrs attrs,
               DType dtype) {
  Node node{.row = &row, .attrs = std::move(attrs)};
  node.operands.assign(operands.begin(), operands.end());
  return graph.nodes()[graph.AddNode(std::move(node), {ScalarInfo(graph.mesh(), dtype)})].results[0];
}

ValueId AddWhole(Graph& graph, int64_t value) {
  return AddOne(graph, GetOp("constant"), {},
                {{"value", static_cast<double>(value)}, {"dtype", I64}, {"shape", std::vector<int64_t>{}}},
                I64);
}

// The body with one more carry, a counter: the loop ends when it reaches `limit`.
Graph Counting(Graph body, int64_t limit) {
  RegionParts parts;
  for (const Argument& argument : body.arguments())
    parts.arguments.push_back({.value = argument.value,
                               .type = body.value(argument.value).type,
                               .is_variable = argument.is_variable});
  int carries = 0;
  for (const Argument& argument : body.arguments()) carries += argument.is_variable;
  ValueInfo info = ScalarInfo(body.mesh(), I64);
  info.name = "limit/count";
  const ValueId count = body.AddArgument(std::move(info), /*is_variable=*/true);
  parts.arguments.insert(parts.arguments.begin() + carries,
                         {.value = count, .type = {I64, {}}, .is_variable = true});
  const ValueId within = AddOne(body, GetOp("less"), {count, AddWhole(body, limit)}, {}, BOOL);
  parts.outputs = {AddOne(body, GetOp("and"), {body.outputs()[0].value, within}, {}, BOOL)};
  parts.updates = body.updates();
  parts.updates.push_back({carries, AddOne(body, GetOp("add"), {count, AddWhole(body, 1)}, {}, I64)});
  return MakeRegion(body, parts);
}

}  // namespace

Graph WithLimits(const Graph& program, int64_t limit) {
  return WithRegions(program, [&](const Graph& graph) {
    Rewriter rewriter(graph);
    for (const Node& node : graph.nodes()) {
      if (node.row->name != "while") {
        rewriter.Copy(node);
        continue;
      }
      Graph& to = rewriter.to();
      Node counting = node;
      counting.operands = rewriter.Map(node.operands);
      counting.operands.insert(counting.operands.begin() + ShapeOfControl(node).carries, AddWhole(to, 0));
      counting.regions = {std::make_shared<const Graph>(Counting(*node.regions[0], limit))};
      std::vector<ValueInfo> infos;
      for (ValueId id : node.results) infos.push_back(graph.value(id));
      infos.push_back(ScalarInfo(graph.mesh(), I64));
      const int added = to.AddNode(std::move(counting), std::move(infos));
      for (size_t r = 0; r < node.results.size(); ++r)
        rewriter.Set(node.results[r], to.nodes()[added].results[r]);
    }
    return std::move(rewriter).Finish();
  });
}

}  // namespace meshwork
