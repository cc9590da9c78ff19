// Models: names of their parts, layouts by these names, layers one after the other, the table of their variables.
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "train/classifier.h"

namespace meshwork::models_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Graph OnFour() { return Graph(Mesh::VirtualCpus("batch=2,model=2").value()); }

std::vector<std::string> Names(const Graph& g) {
  std::vector<std::string> names;
  for (size_t a = 0; a < g.arguments().size(); ++a) names.push_back(g.argument_name(static_cast<int>(a)));
  return names;
}

// The location of the only node with this op.
std::string LineOf(const Graph& g, std::string_view op) {
  for (size_t n = 0; n < g.nodes().size(); ++n)
    if (g.nodes()[n].row->name == op) return g.nodes()[n].location.ToString();
  return "none";
}

// ---- Names.

TEST(NameScopeTest, NamesVariablesAndNodes) {
  Graph g = OnFour();
  Value x = g.Input("x", F32, {4, 6}, {"batch", UNSHARDED});
  {
    const NameScope tower(g, "tower");
    const NameScope block(g, "block3");
    const Dense query(g, "query", 6, 6);
    Value h = Relu(query(x));
    g.Output("h", Exp(h));
  }
  g.Output("y", Neg(x));
  EXPECT_THAT(Names(g), ElementsAre("x", "tower/block3/query/kernel", "tower/block3/query/bias"));
  EXPECT_THAT(LineOf(g, "matmul"), HasSubstr("models_test.cc:"));
  EXPECT_THAT(LineOf(g, "matmul"), HasSubstr(" in tower/block3/query"));
  EXPECT_TRUE(LineOf(g, "relu").ends_with(" in tower/block3")) << LineOf(g, "relu");
  EXPECT_THAT(LineOf(g, "neg"), testing::Not(HasSubstr(" in ")));
}

TEST(NameScopeTest, GradientsAreOfTheScopeOfTheirOps) {
  Graph g = OnFour();
  Value x = g.Input("x", F32, {4, 6}, {"batch", UNSHARDED});
  Value loss;
  {
    const NameScope scope(g, "head");
    Variable w = g.Var("w", Zeros({6}));
    loss = ReduceSum(Tanh(x * w), {0, 1});
  }
  {
    const NameScope scope(g, "training");
    Adam({}).Minimize(loss);
  }
  EXPECT_THAT(Names(g), ElementsAre("x", "head/w", "adam/step", "adam/m/head/w", "adam/v/head/w"));
  int of_head = 0;
  for (const Node& node : g.nodes()) {
    if (node.row->name == "adam_update") {
      EXPECT_EQ(node.location.scope, "");
    }
    of_head += node.location.scope == "head" ? 1 : 0;
  }
  EXPECT_GT(of_head, 4);  // the three of the loss, and their gradients
}

TEST(NameScopeTest, HoldsInBodiesAndFollowsAGraphThatIsMoved) {
  Graph g = OnFour();
  Value x = g.Input("x", F32, {4}, {"batch"});
  {
    const NameScope scope(g, "loop");
    Graph moved = std::move(g);
    x = Scan(moved, {x}, {},
             [](Graph& body, const std::vector<Value>& carries, const std::vector<Value>&) {
               const NameScope inner(body, "cell");
               return ScanStep{{Sin(carries[0])}};
             },
             {.length = 2})
            .carries[0];
    g = std::move(moved);
  }
  g.Var("w", Zeros({2}));
  EXPECT_EQ(g.arguments().back().value, g.variables()[0].id());
  EXPECT_THAT(Names(g), ElementsAre("x", "w"));
  ASSERT_EQ(g.nodes().size(), 1u);
  EXPECT_EQ(g.nodes()[0].location.scope, "loop");
  EXPECT_EQ(g.nodes()[0].regions[0]->nodes()[0].location.scope, "loop/cell");
}

TEST(NameScopeTest, StandsInErrorsAndExplanations) {
  Graph g = OnFour();
  Value x = g.Input("x", F32, {4, 6}, {"batch", "model"});
  {
    const NameScope scope(g, "block1");
    g.Output("y", MatMul(x, g.Var("w", Zeros({6, 2}))));
  }
  Session session = Session::Create(g).value();
  EXPECT_THAT(session.Explain(), HasSubstr(" in block1"));
  {
    const NameScope scope(g, "block2");
    MatMul(x, x);
  }
  EXPECT_THAT(MessageOf(g.status()), HasSubstr(" in block2): "));
}

// ---- Layouts.

TEST(LayoutRulesTest, PatternsLayOutWhatHasNoLayoutOfItsOwn) {
  Graph g = OnFour();
  g.SetLayouts({.layouts = {{"*/kernel", {UNSHARDED, "model"}},
                            {"*/bias", {"model"}},
                            {"block2/out/kernel", {"model", UNSHARDED}},
                            {"x", {"batch", UNSHARDED}}}});
  Value x = g.Input("x", F32, {4, 6});
  const Dense in(g, "block2/in", 6, 8), out(g, "block2/out", 8, 6);
  const Dense own(g, "own", 6, 6, {.kernel_layout = {"batch", UNSHARDED}});
  Variable scalar = g.Var("scalar", Zeros({})), whole = g.Var("whole", Zeros({3, 2, 2}));
  g.Output("y", own(out(Relu(in(x)))));
  ASSERT_EQ(g.status(), absl::OkStatus());
  const auto text = [](const Value& value) { return LayoutSpecToString(value.layout()); };
  EXPECT_EQ(text(x), "{batch,_}");
  EXPECT_EQ(text(in.kernel()), "{_,model}");
  EXPECT_EQ(text(in.bias()), "{model}");
  EXPECT_EQ(text(out.kernel()), "{model,_}");
  EXPECT_EQ(text(own.kernel()), "{batch,_}");
  EXPECT_EQ(text(scalar), "{}");
  EXPECT_EQ(text(whole), "{_,_,_}");
  // Another variable with the kernel's layout.
  EXPECT_EQ(text(g.Var("alike", Zeros({6, 8}), in.kernel().layout())), "{_,model}");
}

TEST(LayoutRulesTest, WhatNoPatternFitsMayBeLeftToTheCompiler) {
  Graph g = OnFour();
  g.SetLayouts({.layouts = {{"x", {"batch", UNSHARDED}}}, .open = true});
  Value x = g.Input("x", F32, {4, 6});
  Variable w = g.Var("w", Zeros({6, 8}));
  EXPECT_EQ(LayoutSpecToString(w.layout()), "{?,?}");
  g.Output("y", WithLayout(MatMul(x, w), {"batch", "model"}));
  EXPECT_EQ(Session::Create(g)->LayoutOf("w")->ToString(), "{_,model}");
}

// One program for meshes with and without an axis.
TEST(LayoutRulesTest, AxesThatTheMeshLacksMayShardNothing) {
  for (const char* mesh : {"batch=2,model=2", "batch=2", "model=3", "other=2"}) {
    SCOPED_TRACE(mesh);
    Graph g(Mesh::VirtualCpus(mesh).value());
    g.SetLayouts({.missing_axes = MissingAxes::kShardNothing});
    Value x = g.Input("x", F64, {6, 3}, {"batch", UNSHARDED});
    Variable w = g.Var("w", GlorotUniform({3, 6}, F64), {UNSHARDED, "model"});
    Value y = Relayout(MatMul(x, w), {{"batch", "model"}, UNSHARDED});
    g.Output("y", WithLayout(y * 2.0, {"model", "batch"}));
    Session session = Session::Create(g).value();
    const Tensor fed = Rough(Type{F64, {6, 3}}), weights = session.Get("w").value();
    const Tensor y_there = session.Run({{"x", fed}})->Get("y").value();
    for (int64_t i = 0; i < 6; ++i) {
      for (int64_t j = 0; j < 6; ++j) {
        double expected = 0;
        for (int64_t k = 0; k < 3; ++k)
          expected += 2 * fed.values<double>()[i * 3 + k] * weights.values<double>()[k * 6 + j];
        EXPECT_NEAR(y_there.values<double>()[i * 6 + j], expected, 1e-12);
      }
    }
  }
}

// If an axis is misspelt (in a rule, a declaration or the mesh), no layout names the mesh axis of nearly that name.
TEST(LayoutRulesTest, MisspeltAxesDoNotShardNothing) {
  const auto status = [](const std::string& mesh, std::vector<std::string> names, LayoutRules rules = {}) {
    Graph g(Mesh::VirtualCpus(mesh).value());
    rules.layouts.push_back({"x", {DimSpec(names[0]), UNSHARDED}});
    rules.layouts.push_back({"in/kernel", {UNSHARDED, DimSpec(names[1])}});
    rules.missing_axes = MissingAxes::kShardNothing;
    g.SetLayouts(std::move(rules));
    const Value h = Dense(g, "in", 6, 8)(g.Input("x", F32, {4, 6}));
    g.Output("y", Dense(g, "out", 8, 6, {.kernel_layout = {DimSpec(names[2]), UNSHARDED}})(h));
    return g.status();
  };
  for (const char* mesh : {"batch=2,model=2,expert=2", "batch=4", "model=2", "expert=2", "batch=2,expert=2",
                           "", "rows=2,columns=3", "batch=2,model=4,expert=2*2"})
    EXPECT_EQ(status(mesh, {"batch", "model", "expert"}), absl::OkStatus()) << mesh;
  for (size_t at = 0; at < 3; ++at) {
    const std::vector<std::string> right = {"batch", "model", "expert"};
    std::vector<std::string> names = right;
    std::swap(names[at][1], names[at][2]);
    EXPECT_THAT(
        MessageOf(status("batch=2,model=2,expert=2", names)),
        AllOf(HasSubstr(fmt::format("has no axis \"{}\"; did you mean \"{}\"?", names[at], right[at])),
              HasSubstr(fmt::format("No layout names the mesh's \"{}\"", right[at]))));
    for (const std::string& mesh :
         {names[at] + "=2", fmt::format("{}=2,{}=2", right[(at + 1) % 3], names[at])})
      EXPECT_THAT(MessageOf(status(mesh, right)),
                  HasSubstr(fmt::format("No layout names the mesh's \"{}\"", names[at])));
  }
  // The axes in the rules for batches and for large variables count as named, too.
  EXPECT_EQ(status("batch=2,data=2", {"batch", "model", "model"}, {.batch = {"data"}}), absl::OkStatus());
  EXPECT_EQ(status("batch=2,data=2", {"batch", "model", "model"}, {.variables = {"data"}}), absl::OkStatus());
  EXPECT_FALSE(status("batch=2,data=2", {"batch", "batch", "batch"}, {.variables = {"dtaa"}}).ok());
}

// ---- Sequential.

TEST(SequentialTest, IsItsLayersOneAfterTheOther) {
  Graph g = OnFour();
  Value x = g.Input("x", F64, {4, 3}, {"batch", UNSHARDED});
  const Dense in(g, "in", 3, 5, {.dtype = F64}), out(g, "out", 5, 2, {.dtype = F64});
  const Sequential model(in, Relu, out, [](const Value& h) { return h * 2.0; });
  const Sequential twice(model, Sequential());
  g.Output("y", twice(x));
  const int line = __LINE__ - 1;
  g.Output("expected", out(Relu(in(x))) * 2.0);
  EXPECT_EQ(LineOf(g, "relu"), fmt::format("models_test.cc:{}", line));
  EXPECT_EQ(LineOf(g, "matmul"), fmt::format("models_test.cc:{} in in", line));
  Session session = Session::Create(g).value();
  const StepResult result = session.Run({{"x", Rough(Type{F64, {4, 3}})}}).value();
  ExpectNear(result.Get("y").value(), result.Get("expected").value(), 0);
  EXPECT_EQ(Sequential()(x).id(), x.id());
}

// ---- Summary.

TEST(SummaryTest, HasEveryVariableOfTheModel) {
  Graph g = OnFour();
  g.SetLayouts({.layouts = {{"*/kernel", {UNSHARDED, "model"}}, {"x", {"batch", UNSHARDED}}}});
  Value x = g.Input("x", F32, {4, 640});
  const Dense query(g, "block/query", 640, 64);
  Variable mean = g.Var("mean", Zeros({64}), {}, VarOptions{.trainable = false});
  Variable open = g.Var("open", Zeros({64, 3}, BF16), {OPEN, UNSHARDED});
  Value loss = ReduceSum(query(x) + mean, {0, 1}) + ReduceSum(Cast(open, F32), {0, 1});
  Adam({}).Minimize(loss);
  EXPECT_EQ(Summary(g),
            "variable        type         layout     elements    bytes  per device\n"
            "block\n"
            "  query/kernel  f32[640,64]  {_,model}    40,960  163,840      81,920\n"
            "  query/bias    f32[64]      {_}              64      256         256\n"
            "mean            f32[64]      {_}              64      256         256  not trained\n"
            "open            bf16[64,3]   {?,_}           192      384         384\n"
            "41,216 elements in 3 variables that are trained: 164,480 bytes, 82,560 on a device\n"
            "64 elements in 1 variable that is not trained: 256 bytes, 256 on a device\n"
            "82,433 elements in 7 variables of optimizers: 329,736 bytes, 165,896 on a device\n");
  EXPECT_EQ(Summary(Graph{Mesh()}),
            "variable  type  layout  elements  bytes  per device\n"
            "0 elements in 0 variables that are trained: 0 bytes, 0 on a device\n");
}

}  // namespace
}  // namespace meshwork::models_test
