#include "meshwork/train/session.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "runtime/programs.h"

namespace meshwork {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

// Axes the mesh does not have shard nothing.
DimSpec AxisOrWhole(const Mesh& mesh, const char* name) {
  return mesh.FindAxes(name).ok() ? DimSpec(name) : DimSpec(UNSHARDED);
}

// A linear classifier: x: f64[b,3], y: i32[b] -> loss, accuracy, logits: f64[b,4]; trained by SGD.
Graph Classifier(const std::string& mesh_text, int64_t batch_size) {
  Graph g(Mesh::VirtualCpus(mesh_text).value());
  const DimSpec batch = AxisOrWhole(g.mesh(), "batch"), model = AxisOrWhole(g.mesh(), "model");
  Value x = g.Input("x", F64, {batch_size, 3}, {batch, UNSHARDED});
  Value y = g.Input("y", I32, {batch_size}, {batch});
  Variable w = g.Var("w", GlorotUniform({3, 4}, F64), {UNSHARDED, model});
  Variable b = g.Var("b", Zeros({4}, F64), {UNSHARDED});
  Value logits = MatMul(x, w) + b;
  Value loss = SparseSoftmaxCrossEntropy(logits, y);
  Sgd({.learning_rate = 0.5}).Minimize(loss);
  g.Output("loss", loss);
  g.Output("accuracy", Accuracy(logits, y, F64));
  g.Output("logits", logits);
  return g;
}

// The first `rows` of a fixed set of examples.
Feeds Examples(int64_t rows) {
  static const Tensor x = Rough(Type{F64, {12, 3}});
  static const Tensor y = Tensor::From<int32_t>({12}, {0, 3, 1, 2, 2, 0, 1, 3, 3, 0, 2, 1});
  return {{"x", x.Rows(0, rows)}, {"y", y.Rows(0, rows)}};
}

// What a session remembers.
Tensors StateOf(const Session& session) {
  Tensors state;
  for (const std::string& name : session.variable_names()) state[name] = session.Get(name).value();
  return state;
}

void ExpectNear(const Tensor& a, const Tensor& b, double tolerance = 1e-12) {
  ASSERT_EQ(a.type(), b.type());
  for (int64_t i = 0; i < a.num_elements(); ++i)
    EXPECT_NEAR(a.values<double>()[i], b.values<double>()[i], tolerance);
}

void ExpectNear(const Tensors& a, const Tensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) {
    SCOPED_TRACE(name);
    ExpectNear(tensor, b.at(name));
  }
}

std::string RunError(Session& session, const Feeds& feeds) {
  const absl::StatusOr<StepResult> result = session.Run(feeds);
  return result.ok() ? "OK" : std::string(MessageOf(result.status()));
}

// ---- Outputs.

TEST(SessionTest, RunsAProgramAndReturnsItsOutputs) {
  Graph g(Mesh::VirtualCpus("batch=2").value());
  Value x = g.Input("x", F32, {3, 2}, {"batch", UNSHARDED});
  g.Output("twice", x * 2.0);
  g.Output("sum", ReduceSum(x, {0, 1}));
  Session session = Session::Create(g).value();
  const StepResult result = session.Run({{"x", Tensor::From<float>({3, 2}, {1, 2, 3, 4, 5, 6})}}).value();
  EXPECT_THAT(result.Get("twice")->values<float>(), ElementsAre(2, 4, 6, 8, 10, 12));
  EXPECT_EQ(result.Get("twice")->shape(), (Shape{3, 2}));
  EXPECT_EQ(result.scalar("sum").value(), 21);
  EXPECT_EQ(result.outputs().size(), 2u);
  EXPECT_TRUE(session.variable_names().empty());
}

TEST(SessionTest, RunsAProgramWithoutInputs) {
  Graph g(Mesh::VirtualCpus("batch=2").value());
  Variable n = g.Var("n", Filled(5, {}, I64), {});
  g.Update(n, n + 1.0);
  g.Output("n", n);
  Session session = Session::Create(g).value();
  EXPECT_EQ(session.Run({})->scalar("n").value(), 5);
  EXPECT_EQ(session.Run({})->scalar("n").value(), 6);
  EXPECT_EQ(session.Get("n")->Scalar().value(), 7);
}

TEST(SessionTest, NamesTheOutputThatIsNotThere) {
  Session session = Session::Create(Classifier("batch=2", 6)).value();
  const StepResult result = session.Run(Examples(6)).value();
  EXPECT_EQ(MessageOf(result.Get("los").status()),
            "Session: there is no output \"los\"; did you mean \"loss\"?");
  EXPECT_EQ(MessageOf(result.scalar("gradient").status()),
            "Session: there is no output \"gradient\"; the outputs are accuracy, logits, loss.");
  EXPECT_EQ(result.Get("los").status().code(), absl::StatusCode::kNotFound);
}

TEST(SessionTest, AScalarHasOneElement) {
  Session session = Session::Create(Classifier("batch=2", 6)).value();
  EXPECT_EQ(MessageOf(session.Run(Examples(6))->scalar("logits").status()),
            "output \"logits\": Tensor: a f64[6,4] has 24 elements; Scalar() reads tensors of one.");
}

// ---- Bound steps.

TEST(SessionTest, ABoundStepIsTheSameStep) {
  Session session = Session::Create(Classifier("batch=4,model=2", 6)).value();
  Session bound_session = Session::Create(Classifier("batch=4,model=2", 6)).value();
  Tensor x({F64, {6, 3}}), y({I32, {6}});
  BoundStep bound = bound_session.Bind({{"x", x}, {"y", y}}).value();
  for (int64_t begin : {0, 6, 3}) {
    const Feeds feeds = {{"x", Examples(12)["x"].Rows(begin, begin + 6)},
                         {"y", Examples(12)["y"].Rows(begin, begin + 6)}};
    std::copy_n(feeds.at("x").values<double>().begin(), 18, x.mutable_values<double>().begin());
    std::copy_n(feeds.at("y").values<int32_t>().begin(), 6, y.mutable_values<int32_t>().begin());
    ASSERT_EQ(MessageOf(bound.Run()), "");
    ExpectBitwiseEqual(bound.outputs(), session.Run(feeds)->outputs());
    ExpectBitwiseEqual(StateOf(bound_session), StateOf(session));
  }
}

TEST(SessionTest, AStepIsBoundToAShortBatchAndSurvivesAMove) {
  Session session = Session::Create(Classifier("batch=4", 6)).value();
  BoundStep bound = session.Bind(Examples(5)).value();
  const Session moved = std::move(session);
  ASSERT_EQ(MessageOf(bound.Run()), "");
  Session reference = Session::Create(Classifier("batch=4", 6)).value();
  ExpectBitwiseEqual(bound.outputs(), reference.Run(Examples(5))->outputs());
  ExpectBitwiseEqual(StateOf(moved), StateOf(reference));
}

TEST(SessionTest, BindingRefusesTheFeedsThatRunRefuses) {
  Session session = Session::Create(Classifier("batch=2", 6)).value();
  EXPECT_EQ(MessageOf(session.Bind({{"x", Examples(6)["x"]}}).status()),
            "Run: feed \"y\" is missing; step(x: f64[6,3], y: i32[6]) takes every input at every step.");
}

// ---- Feeds.

TEST(SessionTest, RefusesFeedsThatDoNotFitAndKeepsItsState) {
  Session session = Session::Create(Classifier("batch=2", 6)).value();
  ASSERT_TRUE(session.Run(Examples(6)).ok());
  const Tensors before = StateOf(session);
  const Tensor x = Examples(6)["x"], y = Examples(6)["y"];

  EXPECT_EQ(RunError(session, {{"x", x}}),
            "Run: feed \"y\" is missing; step(x: f64[6,3], y: i32[6]) takes every input at every step.");
  EXPECT_EQ(RunError(session, {}),
            "Run: feed \"x\" is missing; step(x: f64[6,3], y: i32[6]) takes every input at every step.");
  EXPECT_EQ(RunError(session, {{"x", x}, {"y", y}, {"yy", y}}),
            "Run: feed \"yy\" is no input of step(x: f64[6,3], y: i32[6]); did you mean \"y\"?");
  EXPECT_EQ(RunError(session, {{"x", x}, {"y", y}, {"labels", y}}),
            "Run: feed \"labels\" is no input of step(x: f64[6,3], y: i32[6]).");
  EXPECT_EQ(RunError(session, {{"x", x}, {"y", y}, {"w", x}}),
            "Run: feed \"w\" is a variable; the program keeps its value; set it between steps (Session::Set, "
            "or Pack).");
  EXPECT_EQ(RunError(session, {{"x", Tensor()}, {"y", y}}),
            "Run: feed \"x\": Tensor: it has no elements yet; a default-constructed Tensor is empty.");
  EXPECT_EQ(RunError(session, {{"x", Tensor::From<double>({4, 3}, {1})}, {"y", y}}),
            "Run: feed \"x\": Tensor: 1 value for a f64[4,3], which has 12 elements; give one for each.");
  // Longer than the program's batch, and two lengths.
  EXPECT_EQ(
      RunError(session, Examples(7)),
      "Run: feed \"x\" is f64[7,3]; the program takes f64[6,3], compile it for this shape or feed that one.");
  EXPECT_EQ(
      RunError(session, {{"x", x.Rows(0, 4)}, {"y", y}}),
      "Run: feed \"x\" is f64[4,3]; the program takes f64[6,3], compile it for this shape or feed that one.");
  EXPECT_EQ(
      RunError(session, {{"x", x}, {"y", y.Rows(0, 5)}}),
      "Run: feed \"y\" is i32[5]; the program takes i32[6], compile it for this shape or feed that one.");
  // A batch of none.
  EXPECT_EQ(
      RunError(session, Examples(0)),
      "Run: feed \"x\" is f64[0,3]; the program takes f64[6,3], compile it for this shape or feed that one.");
  // Another width, full and short.
  EXPECT_EQ(
      RunError(session, {{"x", Tensor::Zeros({F64, {6, 2}})}, {"y", y}}),
      "Run: feed \"x\" is f64[6,2]; the program takes f64[6,3], compile it for this shape or feed that one.");
  EXPECT_EQ(
      RunError(session, {{"x", Tensor::Zeros({F64, {4, 2}})}, {"y", y.Rows(0, 4)}}),
      "Run: feed \"x\" is f64[4,2]; the program takes f64[4,3], compile it for this shape or feed that one.");
  EXPECT_EQ(
      RunError(session, {{"x", Tensor::Zeros({F64, {}})}, {"y", y}}),
      "Run: feed \"x\" is f64[]; the program takes f64[6,3], compile it for this shape or feed that one.");
  // Another dtype.
  EXPECT_EQ(
      RunError(session, {{"x", Tensor::Zeros({F32, {6, 3}})}, {"y", y}}),
      "Run: feed \"x\" is f32[6,3]; the program takes f64[6,3], convert it or cast inside the program.");
  EXPECT_EQ(MessageOf(session.Evaluate({{"x", x}}).status()),
            "Run: feed \"y\" is missing; evaluate(x: f64[6,3], y: i32[6]) takes every input at every step.");

  ExpectBitwiseEqual(StateOf(session), before);
  EXPECT_TRUE(session.Run(Examples(6)).ok());
}

TEST(SessionTest, RefusesAVariableTiedToTheBatchWhereTheBatchIsShort) {
  Graph g(Mesh::VirtualCpus("batch=2").value());
  Value x = g.Input("x", F32, {6, 3}, {"batch", UNSHARDED});
  Variable table = g.Var("table", Zeros({6, 3}), {"batch", UNSHARDED});
  g.Update(table, table + x);
  g.Output("sum", ReduceSum(table + x, {0, 1}));
  Session session = Session::Create(g).value();
  const Tensor ones = Tensor::From<float>({6, 3}, std::vector<float>(18, 1));
  EXPECT_EQ(session.Run({{"x", ones}})->scalar("sum").value(), 18);
  EXPECT_EQ(
      RunError(session, {{"x", ones.Rows(0, 4)}}),
      "Session: variable \"table\" is f32[6,3]; its dim 0 is tied to the batch of 6, so the program cannot "
      "run with 4.");
  EXPECT_EQ(session.Run({{"x", ones}})->scalar("sum").value(), 36);
}

// ---- Short leading batches.

class ShortBatchTest : public testing::TestWithParam<const char*> {};

TEST_P(ShortBatchTest, EqualsTheSameRowsOnOneDevice) {
  constexpr int64_t kFull = 9;
  Session session = Session::Create(Classifier(GetParam(), kFull)).value();
  for (int64_t rows = 1; rows <= kFull; ++rows) {
    SCOPED_TRACE(rows);
    // A program written for exactly this batch, from the same state.
    Session exact = Session::Create(Classifier("batch=1", rows)).value();
    for (const auto& [name, value] : StateOf(session)) ASSERT_EQ(MessageOf(exact.Set(name, value)), "");
    const StepResult evaluated = session.Evaluate(Examples(rows)).value();
    const StepResult ran = session.Run(Examples(rows)).value();
    const StepResult expected = exact.Run(Examples(rows)).value();
    EXPECT_EQ(ran.Get("logits")->shape(), (Shape{rows, 4}));
    ExpectNear(ran.outputs(), expected.outputs());
    ExpectNear(evaluated.outputs(), expected.outputs());
    ExpectNear(StateOf(session), StateOf(exact));
  }
}

TEST_P(ShortBatchTest, MeansAreOverTheRowsThatAreThere) {
  Session session = Session::Create(Classifier(GetParam(), 9)).value();
  const Feeds examples = Examples(9);
  double sum_of_losses = 0, hits = 0;
  for (int64_t rows = 1; rows <= 9; ++rows) {
    const StepResult one = session
                               .Evaluate({{"x", examples.at("x").Rows(rows - 1, rows)},
                                          {"y", examples.at("y").Rows(rows - 1, rows)}})
                               .value();
    sum_of_losses += one.scalar("loss").value();
    hits += one.scalar("accuracy").value();
    const StepResult all = session.Evaluate(Examples(rows)).value();
    EXPECT_NEAR(all.scalar("loss").value(), sum_of_losses / static_cast<double>(rows), 1e-12);
    EXPECT_NEAR(all.scalar("accuracy").value(), hits / static_cast<double>(rows), 1e-12);
  }
}

INSTANTIATE_TEST_SUITE_P(Meshes, ShortBatchTest,
                         testing::Values("batch=1", "batch=2", "batch=4", "batch=9", "batch=16", "model=3",
                                         "batch=2,model=2", "model=2,batch=3"));

TEST(SessionTest, InputsWithoutTheBatchStayWholeInAShortBatch) {
  Graph g(Mesh::VirtualCpus("batch=2").value());
  Value x = g.Input("x", F32, {4, 2}, {"batch", UNSHARDED});
  Value scale = g.Input("scale", F32, {}, {});
  Value mask = g.Input("mask", F32, {2}, {UNSHARDED});
  g.Output("y", x * mask * scale);
  Session session = Session::Create(g).value();
  const Feeds feeds = {{"x", Tensor::From<float>({3, 2}, {1, 2, 3, 4, 5, 6})},
                       {"scale", Tensor::From<float>({}, {10})},
                       {"mask", Tensor::From<float>({2}, {1, 2})}};
  EXPECT_THAT(session.Run(feeds)->Get("y")->values<float>(), ElementsAre(10, 40, 30, 80, 50, 120));
}

// ---- Evaluate.

TEST(SessionTest, EvaluateComputesTheOutputsOfRunAndChangesNothing) {
  for (const char* mesh : {"batch=1", "batch=4", "batch=2,model=2"}) {
    SCOPED_TRACE(mesh);
    Session session = Session::Create(Classifier(mesh, 6)).value();
    ASSERT_TRUE(session.Run(Examples(6)).ok());
    for (int64_t rows : {6, 5}) {
      const Tensors before = StateOf(session);
      const StepResult evaluated = session.Evaluate(Examples(rows)).value();
      ExpectBitwiseEqual(StateOf(session), before);
      const StepResult ran = session.Run(Examples(rows)).value();
      ExpectBitwiseEqual(evaluated.outputs(), ran.outputs());
      EXPECT_FALSE(BitwiseEqual(session.Get("w").value(), before.at("w")));
    }
  }
}

// ---- Variables.

// The budget for gathers holds for every program that a session compiles.
TEST(SessionTest, EvaluateAndShortBatchesGatherWithinTheSameBudget) {
  Graph g(Mesh::VirtualCpus("x=2").value());
  const Value x = g.Input("x", F32, {600, 600}, {"x", UNSHARDED});
  g.Output("y", ReduceSum(Sort(x, 0).values, {0, 1}));
  EXPECT_FALSE(Session::Create(g).ok());
  Session session = Session::Create(g, {.compile = {.replication_budget = 1 << 21}}).value();
  EXPECT_TRUE(session.Evaluate({{"x", Tensor({F32, {600, 600}})}}).ok());
  EXPECT_TRUE(session.Run({{"x", Tensor({F32, {590, 600}})}}).ok());
}

TEST(SessionTest, VariablesComeBackAsTheyWereSetFromAnyLayout) {
  for (const char* mesh : {"batch=1", "model=3", "batch=2,model=2", "model=8"}) {
    SCOPED_TRACE(mesh);
    Session session = Session::Create(Classifier(mesh, 6)).value();
    EXPECT_THAT(session.variable_names(), ElementsAre("w", "b"));
    const Tensor w = Rough(Type{F64, {3, 4}});
    ASSERT_EQ(MessageOf(session.Set("w", w)), "");
    EXPECT_TRUE(BitwiseEqual(session.Get("w").value(), w));
    EXPECT_THAT(session.Get("b")->values<double>(), ElementsAre(0, 0, 0, 0));
  }
}

TEST(SessionTest, ATensorFromGetDoesNotChangeWithTheVariable) {
  Session session = Session::Create(Classifier("batch=2", 6)).value();
  const Tensor first = session.Get("w").value();
  const std::vector<double> values(first.values<double>().begin(), first.values<double>().end());
  ASSERT_TRUE(session.Run(Examples(6)).ok());
  EXPECT_THAT(first.values<double>(), testing::ElementsAreArray(values));
  EXPECT_FALSE(BitwiseEqual(session.Get("w").value(), first));
}

TEST(SessionTest, RefusesToSetWhatDoesNotFit) {
  Session session = Session::Create(Classifier("batch=2", 6)).value();
  const Tensors before = StateOf(session);
  EXPECT_EQ(MessageOf(session.Set("w", Tensor::Zeros({F64, {4, 3}}))),
            "variable \"w\": Pack: a f64[4,3] cannot fill a f64[3,4] {_,_}; dtype and shape must agree.");
  EXPECT_EQ(MessageOf(session.Set("w", Tensor::Zeros({F32, {3, 4}}))),
            "variable \"w\": Pack: a f32[3,4] cannot fill a f64[3,4] {_,_}; dtype and shape must agree.");
  EXPECT_EQ(MessageOf(session.Set("w", Tensor())),
            "variable \"w\": Pack: Tensor: it has no elements yet; a default-constructed Tensor is empty.");
  EXPECT_EQ(MessageOf(session.Set("v", Tensor::Zeros({F64, {3, 4}}))),
            "Session: there is no variable \"v\"; the variables are b, w.");
  EXPECT_EQ(session.Set("v", Tensor()).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(MessageOf(session.Get("weights").status()),
            "Session: there is no variable \"weights\"; the variables are b, w.");
  ExpectBitwiseEqual(StateOf(session), before);
}

TEST(SessionTest, InitialValuesHangOnSeedAndNameAlone) {
  auto initial = [](int64_t seed, bool with_another) {
    Graph g(Mesh::VirtualCpus("model=2").value());
    if (with_another) g.Var("another", GlorotUniform({3, 4}), {UNSHARDED, UNSHARDED});
    g.Var("w", GlorotUniform({3, 4}), {UNSHARDED, "model"});
    g.Var("u", GlorotUniform({3, 4}), {UNSHARDED, "model"});
    return StateOf(Session::Create(g, {.seed = seed}).value());
  };
  const Tensors state = initial(1, false);
  EXPECT_TRUE(BitwiseEqual(state.at("w"), initial(1, true).at("w")));
  EXPECT_FALSE(BitwiseEqual(state.at("w"), initial(2, false).at("w")));
  EXPECT_FALSE(BitwiseEqual(state.at("w"), state.at("u")));
}

// ---- The compile.

TEST(SessionTest, ReportsAllMistakesOfTheGraphAtOnce) {
  Graph g(Mesh::VirtualCpus("batch=2").value());
  const int line = __LINE__ + 1;
  Value x = g.Input("x", F32, {6, 3}, {"bach", UNSHARDED});
  Value z = g.Input("z", F32, {6, 3}, {"batch", UNSHARDED});
  Value a = MatMul(z, z);
  Value loss = ReduceSum(z, {0, 1});
  Sgd({.learning_rate = 0.1}).Minimize(loss);
  Adam({.learning_rate = 0.1}).Minimize(loss);
  g.Output("y", Relu(x) + a);
  EXPECT_EQ(
      MessageOf(Session::Create(g).status()),
      fmt::format(
          "Input \"x\" (session_test.cc:{}): Layout {{bach,_}}: mesh [batch=2] has no axis \"bach\"; did "
          "you mean \"batch\"?\n"
          "matmul (session_test.cc:{}): k differs: a is f32[6,3] (k=3), b is f32[6,3] (k=6).\n"
          "Sgd (session_test.cc:{}): the loss depends on no float variable; there is nothing to "
          "minimize.\n"
          "Adam (session_test.cc:{}): the loss depends on no float variable; there is nothing to "
          "minimize.",
          line, line + 2, line + 4, line + 5));
}

TEST(SessionTest, RefusesMoreDevicesThanAProcessRuns) {
  EXPECT_EQ(MessageOf(Session::Create(Classifier("batch=1000000", 6)).status()),
            "Executor: mesh [batch=1000000] has 1000000 devices; one process runs at most 4096 virtual ones. "
            "Compile, "
            "verify and simulate the program instead, or run it on a smaller mesh.");
}

TEST(SessionTest, DumpSeesTheProgramAfterEveryPass) {
  std::vector<std::string> passes, texts;
  SessionOptions options;
  options.compile.dump = [&](std::string_view pass, const Graph& graph) {
    passes.emplace_back(pass);
    texts.push_back(PrintGraph(graph));
  };
  Session session = Session::Create(Classifier("batch=2", 6), options).value();
  EXPECT_THAT(passes, ElementsAre("fold_sizes", "share_subexpressions", "drop_dead_code", "regroup_sums",
                                  "propagate", "insert_relayouts", "localize", "share_subexpressions_local",
                                  "drop_dead_code_local", "bucket_reductions"));
  std::vector<std::string> timed;
  for (const PassTiming& timing : session.program().passes) timed.push_back(timing.pass);
  EXPECT_THAT(timed, IsSupersetOf(passes)) << "a pass that changes nothing takes time, too";
  EXPECT_EQ(texts.back(), PrintGraph(session.program().body));
  for (const std::string& text : texts) EXPECT_THAT(text, HasSubstr("update %w ="));

  // Programs for other batch sizes and for evaluation are not dumped.
  ASSERT_TRUE(session.Run(Examples(5)).ok());
  ASSERT_TRUE(session.Evaluate(Examples(6)).ok());
  EXPECT_EQ(passes.size(), 10u);
}

TEST(SessionTest, ExplainsEveryCollective) {
  Graph g(Mesh::VirtualCpus("batch=2").value());
  Value x = g.Input("x", F32, {6, 4}, {"batch", UNSHARDED});
  const int line = __LINE__ + 1;
  g.Output("sum", ReduceSum(x, {0}));
  EXPECT_EQ(
      Session::Create(g)->Explain(),
      fmt::format(
          "step on mesh [batch=2], 1 collective:\n"
          "  1. all_reduce over (batch): f32[4] {{_ | sum:batch}}, 16 B on the wire per device\n"
          "       reduce_sum (session_test.cc:{}) leaves f32[4] {{_ | sum:batch}} (letter a of ab->b is "
          "reduced over (batch)) and it is wanted as {{_}}\n"
          "cheaper with one layout changed:\n"
          "  %x {{_,batch}} instead of {{batch,_}} (session_test.cc:{}): 0 collectives, 0 B on the wire per "
          "device, 56 B "
          "of memory instead of 64 B\n",
          line, line - 2));
  Graph h(Mesh::VirtualCpus("batch=2").value());
  h.Output("x", h.Input("x", F32, {6}, {"batch"}));
  EXPECT_EQ(Session::Create(h)->Explain(),
            "step on mesh [batch=2]: no collectives; no device needs what another holds.\n");
}

TEST(SessionTest, ExplainsWhichLayoutsDisagree) {
  Graph g(Mesh::VirtualCpus("x=2,y=2").value());
  Value a = g.Input("a", F32, {4, 4}, {UNSHARDED, "x"});
  Value b = g.Input("b", F32, {4, 4}, {"y", UNSHARDED});
  const int line = __LINE__ + 1;
  g.Output("c", MatMul(a, b));
  EXPECT_THAT(
      Session::Create(g)->Explain(),
      HasSubstr(fmt::format("layouts that disagree:\n"
                            "  matmul (session_test.cc:{}): letter k lies on (x) in %a and on (y) in %b\n",
                            line)));
}

TEST(SessionTest, VariablesWithOpenDimsLieWhereTheStepPutsThem) {
  Graph g(Mesh::VirtualCpus("x=2").value());
  Value a = g.Input("a", F32, {4, 4}, {UNSHARDED, "x"});
  Variable w = g.Var("w", Filled(2, {4}), {OPEN});
  Value sum = WithLayout(a + w, {OPEN, "x"});
  g.Update(w, w + ReduceSum(sum, {0}));
  Session session = Session::Create(g).value();
  const Graph& body = session.program().body;
  EXPECT_EQ(body.value(body.arguments()[1].value).layout->ToString(), "{x}");
  ASSERT_TRUE(session.Run({{"a", Tensor::From<float>({4, 4}, std::vector<float>(16, 1))}}).ok());
  EXPECT_THAT(session.Get("w")->values<float>(), Each(2 + 4 * 3));
}

// ---- The profile.

TEST(SessionTest, ProfilesTheFullSteps) {
  Session session =
      Session::Create(Classifier("batch=2", 6), {.workers = 2, .executor = {.profile = true}}).value();
  for (int64_t rows : {6, 5, 6, 6}) ASSERT_TRUE(session.Run(Examples(rows)).ok());
  ASSERT_TRUE(session.Evaluate(Examples(6)).ok());
  const Profile profile = session.Profile();
  EXPECT_EQ(profile.steps, 3);
  EXPECT_EQ(profile.workers, 2);
  for (const ProfileRow& row : profile.rows) EXPECT_EQ(row.calls, 3) << row.op;
  const auto reduce = std::find_if(profile.rows.begin(), profile.rows.end(),
                                   [](const ProfileRow& row) { return row.op == "all_reduce"; });
  ASSERT_NE(reduce, profile.rows.end());
  EXPECT_THAT(reduce->where, HasSubstr(".cc:"));
  EXPECT_THAT(session.Explain(), HasSubstr(reduce->cause.substr(0, reduce->cause.find("; "))));
}

TEST(SessionTest, TracesTheLastFullSteps) {
  Session session =
      Session::Create(Classifier("batch=2", 6),
                      {.workers = 2, .executor = {.coalesce = false, .fuse = false, .trace_steps = 2}})
          .value();
  for (int64_t rows : {6, 5, 6, 6}) ASSERT_TRUE(session.Run(Examples(rows)).ok());
  ASSERT_TRUE(session.Evaluate(Examples(6)).ok());
  const Trace trace = session.Trace();
  EXPECT_EQ(trace.name, "step on mesh [batch=2]");
  EXPECT_EQ(trace.tracks.size(), 1u + 2 + 2);
  std::map<std::string, int> collectives, steps;  // how often, on device 1
  for (const TraceEvent& event : trace.events) {
    const TraceLabel& label = trace.labels[event.label];
    if (label.category == "step") ++steps[label.name];
    if (label.category == "collective" && trace.tracks[event.track].name == "device 1 (batch=1)")
      ++collectives[label.name];
  }
  EXPECT_EQ(steps, (std::map<std::string, int>{{"step 1", 1}, {"step 2", 1}}));
  int64_t expected = 0;
  for (const CollectiveSummary& c : SummarizeCollectives(session.program().body)) expected += 2 * c.count;
  EXPECT_GT(expected, 0);
  EXPECT_EQ(collectives, (std::map<std::string, int>{{"all_reduce", static_cast<int>(expected)}}));
}

TEST(SessionTest, ProfilesNothingUnlessAskedTo) {
  Session session = Session::Create(Classifier("batch=2", 6)).value();
  ASSERT_TRUE(session.Run(Examples(6)).ok());
  EXPECT_EQ(session.Profile().steps, 0);
  EXPECT_TRUE(session.Trace().events.empty());
}

// ---- How it is run.

// Devices that are coalesced add up in an order of their own, on any number of workers.
TEST(SessionTest, NumbersDoNotDependOnWorkersOrSharing) {
  for (const char* mesh : {"batch=4", "batch=2,model=3"}) {
    for (bool coalesce : {true, false}) {
      SCOPED_TRACE(fmt::format("{} coalesce={}", mesh, coalesce));
      std::vector<std::pair<Tensors, Tensors>> results;  // outputs, state
      for (int workers : {1, 2, 3}) {
        for (bool share : {true, false}) {
          if (coalesce && !share) continue;
          const SessionOptions options{
              .workers = workers, .own_cores = share, .executor = {.share = share, .coalesce = coalesce}};
          Session session = Session::Create(Classifier(mesh, 6), options).value();
          Tensors outputs;
          for (int64_t rows : {6, 5, 6, 1}) outputs = session.Run(Examples(rows))->outputs();
          results.emplace_back(outputs, StateOf(session));
          ExpectBitwiseEqual(results.back().first, results.front().first);
          ExpectBitwiseEqual(results.back().second, results.front().second);
        }
      }
    }
  }
}

TEST(SessionTest, AVariableWithoutAPinLiesAlikeInAllPrograms) {
  const Graph g = ParseGraph(R"(
mesh [x=2]
func f(%a: f32[4] {x}, var %w: f32[4]) {
  %0 = add %w, %a
  update %w = %0
  return y=%a, w=%w
})")
                      .value();
  Session session = Session::Create(g).value();
  const Tensor a = Tensor::From<float>({4}, {1, 2, 3, 4});
  ASSERT_TRUE(session.Run({{"a", a}}).ok());
  const absl::StatusOr<StepResult> result = session.Evaluate({{"a", a}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->Get("w")->values<float>(), testing::ElementsAre(1, 2, 3, 4));
}

// Rows of 8 units, sharded by x=4 where there is one, read as 2 heads of 4, which are scaled.
Graph Heads(const char* mesh, int64_t rows) {
  Graph g(Mesh::VirtualCpus(mesh).value());
  const DimSpec columns = AxisOrWhole(g.mesh(), "x");
  Value a = g.Input("x", F64, {rows, 3}, {UNSHARDED, UNSHARDED});
  Value y = g.Input("y", I32, {rows}, {UNSHARDED});
  Variable w = g.Var("w", GlorotUniform({3, 8}, F64), {UNSHARDED, columns});
  Variable scale = g.Var("scale", Filled(2, {2, 4}, F64), {OPEN, OPEN});
  Value heads = Tanh(Reshape(MatMul(a, w), {rows, 2, 4})) * scale;
  Value loss = SparseSoftmaxCrossEntropy(ReduceSum(heads, {2}), y);
  Sgd({.learning_rate = 0.5}).Minimize(loss);
  g.Output("loss", loss);
  return g;
}

TEST(SessionTest, EveryProgramRunsOnTheMeshAsTheStepCutsIt) {
  Session session = Session::Create(Heads("x=4", 8)).value();
  EXPECT_EQ(session.program().body.mesh().ToString(), "[x=2*2]");
  for (int64_t rows : {8, 5, 1}) {
    SCOPED_TRACE(rows);
    const Tensor y = Tensor::From<int32_t>({8}, {0, 1, 1, 0, 0, 1, 0, 1});
    const Feeds feeds = {{"x", Rough(Type{F64, {8, 3}}).Rows(0, rows)}, {"y", y.Rows(0, rows)}};
    Session exact = Session::Create(Heads("d=1", rows)).value();
    for (const auto& [name, value] : StateOf(session)) ASSERT_EQ(MessageOf(exact.Set(name, value)), "");
    const StepResult evaluated = session.Evaluate(feeds).value();
    const StepResult ran = session.Run(feeds).value();
    const StepResult expected = exact.Run(feeds).value();
    ExpectNear(ran.outputs(), expected.outputs());
    ExpectNear(evaluated.outputs(), expected.outputs());
    ExpectNear(StateOf(session), StateOf(exact));
  }
}

TEST(SessionTest, CrossEntropyOfAMaskedClassIsFinite) {
  Graph g(Mesh::VirtualCpus("x=1").value());
  Value z = g.Input("z", F64, {1, 3}, {UNSHARDED, UNSHARDED});
  g.Output("loss", SparseSoftmaxCrossEntropy(z, g.Input("label", I32, {1}, {UNSHARDED})));
  const Tensor logits = Tensor::From<double>({1, 3}, {0, 1, -HUGE_VAL});
  const absl::StatusOr<StepResult> result =
      Session::Create(g)->Run({{"z", logits}, {"label", Tensor::From<int32_t>({1}, {0})}});
  EXPECT_NEAR(*result->scalar("loss"), std::log(1 + std::exp(1.0)), 1e-15);
}

TEST(SessionTest, OneThatWasMovedFromSaysSo) {
  Session first = Session::Create(Classifier("batch=2", 6)).value();
  const Session second = std::move(first);
  const std::string_view message = "Session: it was moved to another one; go on with that.";
  EXPECT_EQ(MessageOf(first.Run(Examples(6)).status()), message);
  EXPECT_EQ(MessageOf(first.Evaluate(Examples(6)).status()), message);
  EXPECT_EQ(MessageOf(first.Bind(Examples(6)).status()), message);
  EXPECT_EQ(MessageOf(first.Get("w").status()), message);
  EXPECT_EQ(MessageOf(first.Set("w", Tensor())), message);
  EXPECT_THAT(first.Explain(), HasSubstr(message));
  EXPECT_THAT(first.variable_names(), testing::IsEmpty());
  EXPECT_TRUE(first.program().body.nodes().empty());
  EXPECT_EQ(first.memory(), ExecutorMemory());
  EXPECT_TRUE(first.Profile().rows.empty());
  EXPECT_TRUE(first.Trace().events.empty());
}

TEST(SessionTest, RefusesAProgramThatComputesNothing) {
  Graph g(Mesh::VirtualCpus("batch=2").value());
  const std::string_view message =
      " and neither an output nor an update, so a step would compute nothing; name results by Graph::Output, "
      "or "
      "call Minimize.";
  EXPECT_THAT(MessageOf(Session::Create(g).status()), EndsWith(message));
  const Variable w = g.Var("w", Filled(3, {2}), {UNSHARDED});
  EXPECT_EQ(Session::Create(g)->Get("w")->values<float>()[1], 3);  // to see what it starts with
  Relu(w);
  EXPECT_THAT(MessageOf(Session::Create(g).status()), EndsWith(message));
  g.Output("y", w);
  EXPECT_TRUE(Session::Create(g).ok());
}

// Sanitizers, whose builds define this, neither fork with threads nor run short of address space.
#if !defined(MESHWORK_ONE_CPU_LEVEL)
// The child has the forking thread alone, and everything else of a session.
TEST(SessionTest, GoesOnInAForkedProcess) {
  for (int workers : {1, 2, 3}) {
    Session session = Session::Create(Classifier("batch=2", 6), {.workers = workers}).value();
    ASSERT_TRUE(session.Run(Examples(6)).ok());
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);  // ends it where it hangs
      const bool ran = session.Run(Examples(6)).ok() && session.Evaluate(Examples(5)).ok() &&
                       session.Run(Examples(6)).ok();
      const bool made = Session::Create(Classifier("batch=2", 6), {.workers = workers}).ok();
      _exit(ran && made ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    EXPECT_TRUE(session.Run(Examples(6)).ok());  // the parent goes on, too
  }
}

// In a child, whose address space runs out. A thread of its own, for libraries that were called before on
// this one have taken what they need at first.
int RunWithSpare(DType dtype, int64_t mebibytes) {
  Graph g{Mesh()};
  const Value x = g.Input("x", dtype, {256, 256}, {UNSHARDED, UNSHARDED});
  const Value image = g.Input("image", dtype, {2, 16, 16, 8}, LayoutSpec(4, UNSHARDED));
  const Variable filter = g.Var("f", GlorotUniform({3, 3, 8, 8}, dtype), LayoutSpec(4, UNSHARDED));
  g.Output("y", MatMul(x, x));
  g.Output("z", Conv(image, filter));
  std::ifstream statm("/proc/self/statm");
  int64_t pages = 0;
  statm >> pages;
  const rlim_t limit = static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE) + (mebibytes << 20));
  const rlimit limits{limit, limit};
  setrlimit(RLIMIT_AS, &limits);
  absl::Status status;
  try {
    absl::StatusOr<Session> session = Session::Create(g, {.workers = 1});
    status = session.ok() ? session
                                ->Run({{"x", Tensor::Zeros({dtype, {256, 256}})},
                                       {"image", Tensor::Zeros({dtype, {2, 16, 16, 8}})}})
                                .status()
                          : session.status();
  } catch (const std::bad_alloc&) {  // of the tensors here
    status = absl::ResourceExhaustedError("");
  }
  return status.ok() || absl::IsResourceExhausted(status) ? 0 : 1;
}

// Whatever it is that fails, the session says so.
TEST(SessionTest, OutOfMemoryIsAStatus) {
  for (DType dtype : {F32, F64, BF16}) {
    for (int64_t spare : {1, 4, 16, 48, 96, 160, 320}) {
      SCOPED_TRACE(spare);
      const pid_t child = fork();
      if (child == 0) {
        alarm(60);
        std::thread([&] { _exit(RunWithSpare(dtype, spare)); }).join();
      }
      int status = -1;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << DTypeName(dtype) << " " << status;
    }
  }
}
#endif

// Sizes that are the batch's by accident: a program written for 6 rows, fed 4, is the one written for 4 rows,
// or is refused. What it makes of 6 rows itself stays 6 rows.
TEST(SessionTest, WhatIsNoBatchDoesNotShrinkWithIt) {
  constexpr int64_t kRows = 6;
  using Build = std::function<Value(Graph & g, const Value& x)>;
  struct Case {
    std::string_view name;
    Build build;
    bool is_refused = false;
  };
  auto constant = [](Graph& g, int64_t rows) { return Constant(g, 2, {F64, {rows, 3}}); };
  std::vector<Case> cases;
  for (int64_t rows : {1, 3, 4, 5, 7, 12, 18}) {
    cases.push_back({"constant rows", [=](Graph& g, const Value& x) {
                       return Concat({x, constant(g, rows)}, 0);
                     }});
    cases.push_back({"in front", [=](Graph& g, const Value& x) {
                       return Concat({Iota(g, {F64, {rows, 3}}, 0), x, constant(g, 1)}, 0);
                     }});
    cases.push_back({"random rows", [=](Graph& g, const Value& x) {
                       return Concat({Tanh(x), RandomNormal(g, {F64, {rows, 3}}, 1, 2, 0, 1)}, 0);
                     }});
    cases.push_back({"what meets the joined rows follows from them", [=](Graph& g, const Value& x) {
                       const Value joined = Concat({x, constant(g, rows)}, 0);
                       return joined * Iota(g, {F64, joined.shape()}, 0);
                     }});
  }
  cases.push_back({"6 rows of ones",
                   [=](Graph& g, const Value& x) {
                     return Concat({x, constant(g, kRows)}, 0);
                   },
                   true});
  cases.push_back({"6 random rows",
                   [=](Graph& g, const Value& x) {
                     return Concat({x, RandomNormal(g, {F64, {kRows, 3}}, 1, 2, 0, 1)}, 0);
                   },
                   true});
  cases.push_back({"6 rows of an iota",
                   [=](Graph& g, const Value& x) {
                     return Concat({Iota(g, {F64, {kRows, 3}}, 0), x}, 0);
                   },
                   true});
  cases.push_back({"an eye",
                   [=](Graph& g, const Value& x) {
                     return Concat({SliceDim(Eye(g, {F64, {kRows, kRows}}), 1, 0, 3), x}, 0);
                   },
                   true});
  cases.push_back(
      {"a variable", [=](Graph& g, const Value& x) {
         return Concat({x, g.Var("v", NormalRandom({kRows, 3}, 0, 1, F64), {UNSHARDED, UNSHARDED})}, 0);
       }});
  cases.push_back({"the batch twice", [=](Graph&, const Value& x) { return Concat({x, Tanh(x)}, 0); }});
  cases.push_back({"an iota of the batch", [=](Graph& g, const Value& x) {
                     return x * Iota(g, {F64, {x.shape()[0], 1}}, 0);
                   }});
  cases.push_back(
      {"an iota of the batch, backwards", [=](Graph& g, const Value& x) {
         return Concat({x * Reverse(Iota(g, {F64, {x.shape()[0], 1}}, 0), {0}), constant(g, 5)}, 0);
       }});
  cases.push_back({"padded", [=](Graph& g, const Value& x) {
                     const Value padded = Pad(x, {2, 0}, {1, 0});
                     return padded + Constant(g, 1, {F64, {padded.shape()[0], 1}});
                   }});
  for (const Case& c : cases) {
    for (const char* mesh : {"batch=1", "batch=4"}) {
      SCOPED_TRACE(c.name);
      auto run = [&](int64_t rows) {
        Graph g(Mesh::VirtualCpus(mesh).value());
        const Value x = g.Input("x", F64, {rows, 3}, {"batch", UNSHARDED});
        g.Output("y", c.build(g, x));
        absl::StatusOr<Session> session = Session::Create(g);
        return session.ok() ? session->Run({{"x", Rough(Type{F64, {12, 3}}).Rows(0, 4)}}) : session.status();
      };
      const absl::StatusOr<StepResult> got = run(kRows);
      if (c.is_refused) {
        EXPECT_THAT(MessageOf(got.status()), HasSubstr("cannot be told"));
        continue;
      }
      const StepResult want = run(4).value();
      ASSERT_TRUE(got.ok()) << got.status();
      ExpectNear(got->Get("y").value(), want.Get("y").value());
    }
  }
}

TEST(SessionTest, MovesAndOutlivesItsGraph) {
  auto make = [] { return Session::Create(Classifier("batch=2", 6)).value(); };
  Session first = make();
  Session second = std::move(first);
  first = make();
  ExpectBitwiseEqual(first.Run(Examples(6))->outputs(), second.Run(Examples(6))->outputs());
}

}  // namespace
}  // namespace meshwork
