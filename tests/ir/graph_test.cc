#include "meshwork/ir/graph.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/gradients.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/ops.h"

namespace meshwork::graph_test {
namespace {

Mesh TestMesh() { return Mesh::Parse("batch=2,model=4").value(); }

// An unsharded input with a name of its own.
Value In(Graph& g, DType dtype, const Shape& shape) {
  return g.Input("x" + std::to_string(g.values().size()), dtype, shape, LayoutSpec(shape.size(), UNSHARDED));
}
Initializer Zeros(Type type) {
  return {type, [](Graph& g, const Type& t, int64_t, int64_t) { return Constant(g, 0, t); }};
}
Variable NewVar(Graph& g, std::string_view name, const Type& type) {
  return g.Var(name, Zeros(type), LayoutSpec(type.shape.size(), UNSHARDED));
}
std::string StatusOf(const Graph& g) { return std::string(MessageOf(g.status())); }

// f(Exp(x), x.shape()) may evaluate the shape first.
TEST(GraphTest, WhatIsKnownOfAValueStaysWhereItIsWhileTheGraphGrows) {
  Graph g(TestMesh());
  const Value x = In(g, F32, {2, 3});
  const Type* type = &x.type();
  const Shape* shape = &x.shape();
  Value y = x;
  for (int i = 0; i < 1000; ++i) y = Exp(y);
  EXPECT_EQ(&x.type(), type);
  EXPECT_EQ(&x.shape(), shape);
}

// ---- Declarations.

TEST(GraphTest, KeepsWhatIsDeclared) {
  Graph g(TestMesh());
  const Value x = g.Input("x", F32, {8, 6}, {"batch", UNSHARDED});
  const int line = __LINE__ - 1;
  const Variable w = NewVar(g, "dense/w.0", {F64, {6}});
  const Value y = Relu(x);
  g.Output("y", y);
  g.Update(w, Mul(w, 0.5));
  ASSERT_TRUE(g.status().ok()) << g.status();

  EXPECT_EQ(x.type(), (Type{F32, {8, 6}}));
  EXPECT_EQ(g.value(x.id()).layout->ToString(), "{batch,_}");
  EXPECT_EQ(g.value(x.id()).global, x.type());
  EXPECT_EQ(g.value(x.id()).location.ToString(), "graph_test.cc:" + std::to_string(line));
  ASSERT_EQ(g.arguments().size(), 2u);
  EXPECT_FALSE(g.arguments()[0].is_variable);
  EXPECT_TRUE(g.arguments()[1].is_variable);
  EXPECT_EQ(g.argument_name(1), "dense/w.0");
  EXPECT_EQ(g.FindArgument("dense/w.0"), 1);
  EXPECT_EQ(g.FindArgument("w"), -1);
  ASSERT_EQ(g.variables().size(), 1u);
  EXPECT_EQ(g.variables()[0].id(), w.id());
  ASSERT_EQ(g.outputs().size(), 1u);
  EXPECT_EQ(g.outputs()[0].value, y.id());
  ASSERT_EQ(g.updates().size(), 1u);
  EXPECT_EQ(g.updates()[0].argument, 1);
  EXPECT_FALSE(g.value(y.id()).layout.has_value());  // no pin
  EXPECT_EQ(g.value(y.id()).node, 0);
}

// ---- The address of a graph.

Graph Declared(std::vector<Value>* values) {
  Graph g(TestMesh());
  values->push_back(g.Input("x", F32, {4}, {UNSHARDED}));
  values->push_back(NewVar(g, "w", {F32, {4}}));
  return g;
}

TEST(GraphTest, HandlesFollowTheGraphThatIsMoved) {
  std::vector<Value> values;
  Graph returned = Declared(&values);
  std::vector<Graph> elsewhere;
  elsewhere.push_back(std::move(returned));
  elsewhere.emplace_back(TestMesh());  // may move the first one again
  Graph assigned(TestMesh());
  const Value before = assigned.Input("y", F32, {4}, {UNSHARDED});
  assigned = std::move(elsewhere[0]);
  EXPECT_TRUE(before.is_lost());
  for (const Value& value : values) EXPECT_EQ(value.graph(), &assigned);
  assigned.Output("sum", values[0] + values[1]);
  EXPECT_EQ(StatusOf(assigned), "");
  EXPECT_EQ(assigned.nodes().size(), 1u);
  EXPECT_EQ(assigned.variables()[0].id(), values[1].id());
  // The graph that was moved from is empty, and says so until it is assigned to.
  EXPECT_EQ(StatusOf(elsewhere[0]), "Graph: it was moved to another one; go on with that.");
  EXPECT_TRUE(elsewhere[0].values().empty());
  EXPECT_EQ(elsewhere[0].mesh(), TestMesh());
  elsewhere[0] = Graph(TestMesh());
  EXPECT_EQ(StatusOf(elsewhere[0]), "");
}

TEST(GraphTest, ACopyIsAGraphOfItsOwn) {
  std::vector<Value> values;
  const Graph g = Declared(&values);
  Graph copy = g;
  EXPECT_EQ(values[0].graph(), &g);
  copy.Output("y", values[0]);
  EXPECT_EQ(StatusOf(copy), "Output \"y\" (graph_test.cc:" + std::to_string(__LINE__ - 1) +
                                "): the value belongs to another graph; name values of this one.");
  Graph again(TestMesh());
  const Value lost = again.Input("z", F32, {}, {});
  again = g;
  EXPECT_TRUE(lost.is_lost());
  EXPECT_EQ(again.values().size(), g.values().size());
  EXPECT_EQ(values[0].graph(), &g);
}

TEST(GraphTest, HandlesOutliveTheirGraphAsInvalidOnes) {
  std::vector<Value> values;
  { const Graph g = Declared(&values); }
  EXPECT_TRUE(values[0].is_lost());
  EXPECT_FALSE(values[0].valid());
  EXPECT_EQ(values[0].graph(), nullptr);
  EXPECT_EQ(values[0].rank(), kMaxRank);
  EXPECT_FALSE((values[0] + 1.0).valid());
  EXPECT_FALSE(Value().is_lost());
}

TEST(GraphTest, BodiesFollowTheGraphThatIsMoved) {
  Graph outer(TestMesh());
  const Value x = outer.Input("x", F32, {4}, {UNSHARDED});
  Graph& body = outer.AddBody("scan");
  Graph moved = std::move(outer);
  EXPECT_EQ(body.depth(), 1);
  EXPECT_EQ(body.Capture(x).graph(), &body);  // by way of the graph around it
  EXPECT_EQ(body.captured()[0].first, x.id());
}

// Names are taken in any case: by declarations, and by code that builds graphs directly.
TEST(GraphTest, WhatIsTakenIsTaken) {
  Graph g(TestMesh());
  const Variable v = NewVar(g, "v", {F32, {4}});
  g.Update(v, v);
  g.Output("y", v);
  ValueInfo added;
  added.name = "added";
  added.type = added.global = {F32, {4}};
  const Variable w(&g, g.AddArgument(added, /*is_variable=*/true));
  g.AddUpdate({1, w.id()});
  g.AddOutput({"z", w.id()});
  ASSERT_EQ(StatusOf(g), "");
  auto expect_refused = [](Graph graph, auto&& declare, std::string_view message) {
    declare(graph);
    EXPECT_THAT(StatusOf(graph), ::testing::HasSubstr(std::string(message)));
  };
  for (const char* name : {"v", "added"})
    expect_refused(
        g,
        [&](Graph& copy) {
          NewVar(copy, name, {F32, {4}});
        },
        "the name is already taken");
  for (const char* name : {"y", "z"})
    expect_refused(
        g, [&](Graph& copy) { copy.Output(name, Value(&copy, v.id())); }, "the name is already taken");
  for (const Variable& variable : {v, w})
    expect_refused(
        g, [&](Graph& copy) { copy.Update(Variable(&copy, variable.id()), Value(&copy, variable.id())); },
        "it is already updated");
  // After ClearUpdates the variable can be updated again.
  g.ClearUpdates();
  g.ClearOutputs();
  g.Update(v, w);
  g.Update(w, v);
  g.Output("y", w);
  g.Output("z", v);
  NewVar(g, "other", {F32, {4}});
  EXPECT_EQ(StatusOf(g), "");
  EXPECT_EQ(g.updates().size(), 2u);
  EXPECT_EQ(g.updates()[1].argument, 1);
}

TEST(GraphTest, FillsDefaultsInTheOrderOfTheRow) {
  Graph g(TestMesh());
  g.Add("random_uniform", {},
        {{"shape", std::vector<int64_t>{4}}, {"high", int64_t{2}}, {"seed", int64_t{7}}}, {});
  ASSERT_TRUE(g.status().ok()) << g.status();
  const Attrs expected = {{"seed", int64_t{7}},
                          {"stream", int64_t{0}},
                          {"placed", false},
                          {"low", 0.0},
                          {"high", 2.0},
                          {"dtype", F32},
                          {"shape", std::vector<int64_t>{4}}};
  EXPECT_EQ(g.nodes()[0].attrs, expected);  // the whole number became a real one
}

TEST(GraphTest, FindsEveryOp) {
  for (const OpRow* row : AllOps()) EXPECT_EQ(FindOp(row->name).value(), row);
}

// ---- How mistakes are recorded.

TEST(GraphTest, ReportsAllMistakesAtOnceWithTheirLines) {
  Graph g(TestMesh());
  const Value x = In(g, F32, {4, 6});
  const Value bad = MatMul(x, x);
  const int first = __LINE__ - 1;
  const Value fine = Relu(x);
  const Value worse = x + In(g, F32, {5});
  const int second = __LINE__ - 1;
  EXPECT_FALSE(bad.valid());
  EXPECT_TRUE(fine.valid());
  EXPECT_FALSE(worse.valid());
  EXPECT_EQ(StatusOf(g),
            fmt::format("matmul (graph_test.cc:{}): k differs: a is f32[4,6] (k=6), b is f32[4,6] (k=4); "
                        "transpose_b=true takes it transposed.\n"
                        "add (graph_test.cc:{}): shapes do not broadcast: f32[4,6], f32[5] (dim 1 from "
                        "the right is 6 and 5); sizes must be equal or 1: "
                        "Slice, Pad or ExpandDims one of them.",
                        first, second));
}

// The other graph gets the error as well: its program lacks the ops that would have used its value.
TEST(GraphTest, BothGraphsHearOfAnOpOnValuesOfTwo) {
  Graph g(TestMesh()), other(TestMesh());
  EXPECT_FALSE(Add(In(g, F32, {4}), In(other, F32, {4})).valid());
  EXPECT_FALSE(g.status().ok());
  EXPECT_EQ(StatusOf(other), StatusOf(g));
}

TEST(GraphTest, MistakesGiveAsManyInvalidValuesAsResults) {
  Graph g(TestMesh());
  const Value x = In(g, F32, {4, 6});
  EXPECT_EQ(g.Add("matmul", {{x}}, {}, {}).size(), 1u);
  EXPECT_EQ(g.Add("adam_update", {{x}}, {}, {}).size(), 3u);
  EXPECT_EQ(g.Add("all_reduce", {}, {}, {}).size(), 0u);
  EXPECT_FALSE(g.Add("matmull", {}, {}, {})[0].valid());
  EXPECT_FALSE(Split(x, 2, -3)[1].valid());
  EXPECT_FALSE(Split(x, 4, 1)[3].valid());
  EXPECT_FALSE(SplitSizes(x, {1, 2, 9}, 1)[2].valid());
  EXPECT_FALSE(Concat({}, 0).valid());
}

TEST(GraphTest, InvalidValuesPassSilently) {
  Graph g(TestMesh());
  const Value x = In(g, F32, {4});
  const Value bad = Exp(In(g, I32, {4}));
  const std::string only = StatusOf(g);
  const size_t nodes = g.nodes().size();
  const Variable bad_variable = g.Var("", Zeros({}), {});
  const std::string both = StatusOf(g);
  EXPECT_NE(both, only);

  EXPECT_FALSE(Value().valid());
  EXPECT_FALSE((bad + x).valid());
  EXPECT_FALSE((x + bad).valid());
  EXPECT_FALSE((2.0 * bad).valid());
  EXPECT_FALSE(Relu(Neg(bad)).valid());
  EXPECT_FALSE(Select(bad, x, x).valid());
  EXPECT_FALSE(Select(In(g, BOOL, {4}), bad, x).valid());
  EXPECT_FALSE(Relayout(bad, {"no such axis"}).valid());
  EXPECT_FALSE(LogSoftmax(bad).valid());
  EXPECT_FALSE(SparseSoftmaxCrossEntropy(bad, x).valid());
  EXPECT_FALSE(Accuracy(x, bad).valid());
  EXPECT_FALSE(AdamUpdate(bad, x, x, x, x, 1, 1, 1, 1).weight.valid());
  EXPECT_FALSE(AdamUpdate(x, x, x, bad, x, 1, 1, 1, 1).second_moment.valid());
  EXPECT_FALSE(Gradients(bad, {x})[0].valid());
  EXPECT_FALSE(Gradients(ReduceSum(x, {0}), {x, bad})[0].valid());
  EXPECT_FALSE(Add(1.0, 2.0).valid());  // no graph to record in
  g.Output("y", bad);
  g.Update(bad_variable, x);
  EXPECT_EQ(StatusOf(g), both);
  EXPECT_TRUE(g.outputs().empty());
  EXPECT_EQ(g.nodes().size(), nodes + 1);  // the sum that was differentiated
}

TEST(GraphTest, NumbersBecomeScalarsOfTheOtherOperand) {
  Graph g(TestMesh());
  const Value y = 2.0 - In(g, I64, {4});
  ASSERT_TRUE(g.status().ok()) << g.status();
  EXPECT_EQ(y.type(), (Type{I64, {4}}));
  ASSERT_EQ(g.nodes().size(), 2u);
  EXPECT_EQ(g.value(g.nodes()[0].results[0]).type, (Type{I64, {}}));
  EXPECT_EQ(g.nodes()[1].operands[0], g.nodes()[0].results[0]);  // sides stay where they are
}

TEST(GraphTest, NodesOfCompositesStandWhereTheUserCalledThem) {
  Graph g(TestMesh());
  const Value logits = In(g, F32, {4, 10});
  SparseSoftmaxCrossEntropy(logits, In(g, I32, {4}));
  const std::string here = "graph_test.cc:" + std::to_string(__LINE__ - 1);
  ASSERT_GT(g.nodes().size(), 5u);
  for (const Node& node : g.nodes()) EXPECT_EQ(node.location.ToString(), here) << node.row->name;
  EXPECT_EQ(g.Describe(0), "reduce_max (" + here + ")");
  EXPECT_EQ(g.Describe("loss", {}), "loss");
}

}  // namespace
}  // namespace meshwork::graph_test
