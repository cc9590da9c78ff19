// What a graph refuses of declarations, and of nodes that are added by name.
#include "meshwork/ir/graph.h"

#include <string>

#include "errors/errors.h"
#include "errors/in.h"
#include "gtest/gtest.h"
#include "meshwork/ir/gradients.h"
#include "meshwork/ir/name_scope.h"
#include "meshwork/ir/registry.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/control/control_flow.h"
#include "meshwork/ops/ops.h"

namespace meshwork::graph_test {
namespace {

Initializer Zeros(Type type) {
  return {type, [](Graph& g, const Type& t, int64_t, int64_t) { return Constant(g, 0, t); }};
}
Variable NewVar(Graph& g, std::string_view name, const Type& type, CallSite loc = CallSite::Current()) {
  return g.Var(name, Zeros(type), LayoutSpec(type.shape.size(), UNSHARDED), loc);
}

TEST(GraphErrors, InputsAndVariables) {
  ExpectErrors("graph_arguments",
               {
                   GRAPH_MISTAKE(g.Input("", F32, {}, {})),
                   GRAPH_MISTAKE(g.Input("2x", F32, {}, {})),
                   GRAPH_MISTAKE(g.Input("a b", F32, {}, {})),
                   GRAPH_MISTAKE(NewVar(g, "w", {}), g.Input("w", F32, {}, {})),
                   GRAPH_MISTAKE(g.Input("w", F32, {}, {}), g.Var("w", Zeros({}), {})),
                   GRAPH_MISTAKE(g.Input("x", F32, {4, -1}, {UNSHARDED, UNSHARDED})),
                   GRAPH_MISTAKE(g.Input("x", F32, {1 << 20, (1 << 20) + 1}, {UNSHARDED, UNSHARDED})),
                   GRAPH_MISTAKE(g.Var("w", Zeros({BOOL, Shape(27, 1)}), LayoutSpec(27, UNSHARDED))),
                   GRAPH_MISTAKE(g.Input("x", F32, {4, 6}, {"batch", "modle"})),
                   GRAPH_MISTAKE(g.Input("x", F32, {4, 6}, {"batch", "batch"})),
                   GRAPH_MISTAKE(g.Var("w", Zeros({F32, {4, 6}}), {"batch"})),
                   GRAPH_MISTAKE(g.Input("a//b", F32, {}, {})),
                   GRAPH_MISTAKE(g.Input("\xff", F32, {}, {})),
                   GRAPH_MISTAKE(g.Input("x", F32, {5}, {DimSpec::Factors({{4, {"batch"}}, {2}})})),
                   GRAPH_MISTAKE(g.Input("x", F32, {4}, {MATCH})),
               });
}

TEST(GraphErrors, UpdatesAndOutputs) {
  Graph other(Mesh::Parse("batch=2,model=4").value());
  const Value foreign = In(other, F32, {4});
  const Variable foreign_variable = NewVar(other, "v", {F32, {4}});
  const Value lost = [] {
    Graph gone{Mesh()};
    return In(gone, F32, {4});
  }();
  ExpectErrors("graph_results", {
    GRAPH_MISTAKE(Value x = In(g, F32, {4}); g.Update(Variable(&g, x.id()), x)),
        GRAPH_MISTAKE(g.Update(NewVar(g, "w", {F32, {4}}), In(g, F32, {4, 1}))),
        GRAPH_MISTAKE(g.Update(NewVar(g, "w", {F32, {4}}), In(g, F64, {4}))),
        GRAPH_MISTAKE(Variable w = NewVar(g, "w", {}); g.Update(w, w), g.Update(w, w)),
        GRAPH_MISTAKE(g.Update(NewVar(g, "w", {F32, {4}}), foreign)),
        GRAPH_MISTAKE(g.Update(foreign_variable, In(g, F32, {4}))),
        GRAPH_MISTAKE(Value x = In(g, F32, {4}); g.Output("y", x), g.Output("y", x)),
        GRAPH_MISTAKE(g.Output("my loss", In(g, F32, {4}))), GRAPH_MISTAKE(g.Output("y", foreign)),
        GRAPH_MISTAKE(Add(In(g, F32, {4}), foreign)), GRAPH_MISTAKE(g.Output("", In(g, F32, {}))),
        GRAPH_MISTAKE(g.Output("y", Value())),
        GRAPH_MISTAKE(g.Update(NewVar(g, "w", {F32, {4}}), Add(1.0, 2.0))),
        GRAPH_MISTAKE(Concat({In(g, F32, {4}), foreign}, 0)),
        GRAPH_MISTAKE(Gradients(ReduceSum(In(g, F32, {4}), {0}), {foreign})),
        GRAPH_MISTAKE(g.Output("y", lost)), GRAPH_MISTAKE(In(g, F32, {4}) + lost),
        GRAPH_MISTAKE(Concat({In(g, F32, {4}), lost}, 0)),
        GRAPH_MISTAKE(g.Update(NewVar(g, "w", {F32, {4}}), lost)), GRAPH_MISTAKE(g.Pin(lost, {"batch"})),
        GRAPH_MISTAKE(Graph moved = std::move(g); moved.Output("y", lost)),
        GRAPH_MISTAKE(Value inner; Scan(g, {}, {In(g, F32, {4, 2})},
                                        [&](Graph&, const auto&, const auto& s) {
                                          inner = s[0];
                                          return ScanStep{};
                                        });
                      g.Output("y", inner)),
        GRAPH_MISTAKE(Value inner; Scan(g, {}, {In(g, F32, {4, 2})},
                                        [&](Graph&, const auto&, const auto& s) {
                                          inner = s[0];
                                          return ScanStep{};
                                        });
                      g.Output("y", inner * 2.0)),
        GRAPH_MISTAKE(Scan(g, {lost}, {}, [&](Graph&, const auto& c, const auto&) { return ScanStep{c}; },
                           {.length = 2})),
  });
}

TEST(GraphErrors, Pins) {
  Graph other(Mesh::Parse("batch=2,model=4").value());
  const Value foreign = In(other, F32, {4});
  ExpectErrors("graph_pins", {
    GRAPH_MISTAKE(Value x = In(g, F32, {4}); WithLayout(WithLayout(x, {"batch"}), {"model"})),
        GRAPH_MISTAKE(WithLayout(Relu(In(g, F32, {4})), {"bacth"})),
        GRAPH_MISTAKE(WithLayout(Relu(In(g, F32, {4})), {"batch", UNSHARDED})),
        GRAPH_MISTAKE(WithLayout(Relu(In(g, F32, {4})), {MATCH})),
        GRAPH_MISTAKE(WithLayout(Relu(In(g, F32, {5})), {DimSpec::Factors({{4, {"batch"}}, {2}})})),
        GRAPH_MISTAKE(g.Pin(foreign, {"batch"})),
  });
}

TEST(GraphErrors, Layouts) {
  ExpectErrors("graph_layouts", {
    GRAPH_MISTAKE(In(g, F32, {4}); g.SetLayouts({.layouts = {{"*", {"batch"}}}})),
        GRAPH_MISTAKE(g.SetLayouts({.layouts = {{"*/kernel", {"batch", UNSHARDED}}}}); In(g, F32, {4, 4})),
        GRAPH_MISTAKE(g.SetLayouts({.layouts = {{"kernl", {"batch", UNSHARDED}}}});
                      NewVar(g, "kernel", {F32, {4, 4}})),
        GRAPH_MISTAKE(g.SetLayouts({.layouts = {{"w", {"batch"}}}}); g.Var("w", Zeros({F32, {4, 4}}))),
        GRAPH_MISTAKE(g.SetLayouts({.layouts = {{"w", {"bach", UNSHARDED}}}});
                      g.Var("w", Zeros({F32, {4, 4}}))),
        GRAPH_MISTAKE(g.SetLayouts(
            {.layouts = {{"w", {"batch", "modle"}}}, .missing_axes = MissingAxes::kShardNothing});
                      g.Var("w", Zeros({F32, {4, 4}}))),
        GRAPH_MISTAKE(g.SetLayouts({.missing_axes = MissingAxes::kShardNothing});
                      g.Var("w", Zeros({F32, {4, 4}}), {"bath", "model"})),
        GRAPH_MISTAKE(const NameScope scope(g, "block 3")), GRAPH_MISTAKE(const NameScope scope(g, "")),
        GRAPH_MISTAKE(const NameScope scope(g, "block"); NewVar(g, "w", {F32, {4}});
                      NewVar(g, "w", {F32, {4}})),
  });
}

// One node on inputs of f32[4,6], as many as the op takes.
absl::Status AddNode(std::string_view op, Attrs attrs, int operands = -1) {
  Graph g(Mesh::Parse("batch=2,model=4").value());
  const absl::StatusOr<const OpRow*> row = FindOp(op);
  if (operands < 0) operands = row.ok() ? std::abs((*row)->num_operands) : 1;
  std::vector<Value> values;
  for (int i = 0; i < operands; ++i) values.push_back(In(g, F32, {4, 6}));
  g.Add(op, values, std::move(attrs), {"model.cc", 41});
  return g.status();
}

TEST(GraphErrors, OpsAndAttributes) {
  using Ints = std::vector<int64_t>;
  ExpectErrors("graph_nodes",
               {
                   MISTAKE(FindOp("matmull")),
                   MISTAKE(FindOp("MatMul")),
                   MISTAKE(FindOp("convolution")),
                   MISTAKE(FindOp("")),
                   MISTAKE(FindOp(std::string_view(
                       "a name that is far longer than any op's, so that nobody can have meant one"))),
                   MISTAKE(AddNode("matmull", {})),
                   MISTAKE(AddNode("matmul", {}, 1)),
                   MISTAKE(AddNode("neg", {}, 2)),
                   MISTAKE(AddNode("all_reduce", {}, 0)),
                   MISTAKE(AddNode("reduce_sum", {{"dim", Ints{0}}})),
                   MISTAKE(AddNode("relu", {{"slope", 0.5}})),
                   MISTAKE(AddNode("reduce_sum", {})),
                   MISTAKE(AddNode("reduce_sum", {{"dims", int64_t{0}}})),
                   MISTAKE(AddNode("matmul", {{"transpose_a", int64_t{1}}})),
                   MISTAKE(AddNode("argmax", {{"dim", 1.0}})),
                   MISTAKE(AddNode("constant", {{"value", true}})),
                   MISTAKE(AddNode("cast", {{"dtype", int64_t{0}}})),
                   MISTAKE(AddNode("relayout", {{"layout", true}})),
                   MISTAKE(AddNode("all_gather", {{"axes", Ints{0}}, {"dim", int64_t{0}}})),
                   MISTAKE(AddNode("all_reduce", {{"axes", AxisList{0}}, {"op", true}})),
                   MISTAKE(AddNode("reshape", {{"shape", Ints{4, -6}}})),
                   MISTAKE(AddNode("all_gather", {{"axes", AxisList{0}}, {"dim", int64_t{0}}})),
                   MISTAKE(DTypeFromName("f23")),
                   MISTAKE(DTypeFromName("float")),
                   MISTAKE(DTypeFromName("")),
               });
}

TEST(GraphErrors, AllMistakesAreReportedTogether) {
  ExpectErrors("graph_all", {
    GRAPH_MISTAKE(Value x = In(g, F32, {4, 6}); MatMul(x, x); x + In(g, F32, {5}); g.Output("", Relu(x))),
  });
}

}  // namespace
}  // namespace meshwork::graph_test
