// Sessions: their outputs, evaluation, what they say of the compiled program, and that no way of running the
// program changes its numbers.
#include "meshwork/session/session.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "runtime/plan/programs.h"
#include "train/classifier.h"

namespace meshwork::session_test {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

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

TEST(SessionTest, IsFedNumbersAsScalars) {
  Graph g(Mesh::VirtualCpus("batch=2").value());
  Value x = g.Input("x", F32, {2}, {"batch"});
  Value rate = g.Input("rate", F32, {}, {});
  g.Output("scaled", x * rate);
  Session session = Session::Create(g).value();
  const StepResult result = session.Run({{"x", Tensor::From<float>({2}, {1, 2})}, {"rate", 0.5f}}).value();
  EXPECT_THAT(result.Get("scaled")->values<float>(), ElementsAre(0.5f, 1));
  // 0.5 is an f64, which an f32 input does not take.
  EXPECT_THAT(MessageOf(session.Run({{"x", Tensor::From<float>({2}, {1, 2})}, {"rate", 0.5}}).status()),
              HasSubstr("f64[]"));
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

// ---- Layouts of variables.

TEST(SessionTest, SaysWhereAVariableLies) {
  Session session = Session::Create(Classifier("batch=2,model=2", 6)).value();
  EXPECT_EQ(session.LayoutOf("w")->ToString(), "{_,model}");
  const std::vector<Shard> shards = session.Shards("w").value();
  ASSERT_EQ(shards.size(), 4u);
  const Tensor whole = session.Get("w").value();
  for (const Shard& shard : shards) {
    EXPECT_EQ(BlockToString(shard.box), shard.device % 2 == 0 ? "[0:3,0:2]" : "[0:3,2:4]");
    for (int64_t i = 0; i < 3; ++i)
      for (int64_t j = 0; j < 2; ++j)
        EXPECT_EQ(shard.tensor.values<double>()[i * 2 + j],
                  whole.values<double>()[i * 4 + shard.box[1].start + j]);
  }
  EXPECT_EQ(MessageOf(session.LayoutOf("v").status()), MessageOf(session.Get("v").status()));
  EXPECT_EQ(MessageOf(session.Shards("v").status()), MessageOf(session.Get("v").status()));
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
          "matmul (session_test.cc:{}): k differs: a is f32[6,3] (k=3), b is f32[6,3] (k=6); "
          "transpose_b=true takes it transposed.\n"
          "Sgd (session_test.cc:{}): the loss depends on no float variable that is trainable; compute it "
          "from some, and not behind StopGradient.\n"
          "Adam (session_test.cc:{}): the loss depends on no float variable that is trainable; compute it "
          "from some, and not behind StopGradient.",
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
                                  "propagate", "insert_relayouts", "choose_layouts", "localize",
                                  "share_subexpressions_local", "drop_dead_code_local", "bucket_reductions"));
  std::vector<std::string> timed;
  for (const PassTiming& timing : session.program().passes) timed.push_back(timing.pass);
  EXPECT_THAT(timed, IsSupersetOf(passes)) << "a pass that changes nothing takes time, too";
  EXPECT_EQ(texts.back(), PrintGraph(session.program().body));
  for (const std::string& text : texts) EXPECT_THAT(text, HasSubstr("update %w ="));

  // Programs for other batch sizes and for evaluation are not dumped.
  ASSERT_TRUE(session.Run(Examples(5)).ok());
  ASSERT_TRUE(session.Evaluate(Examples(6)).ok());
  EXPECT_EQ(passes.size(), 11u);
}

TEST(SessionTest, ExplainsEveryCollective) {
  Graph g(Mesh::VirtualCpus("batch=2").value());
  Value x = g.Input("x", F32, {6, 4}, {"batch", UNSHARDED});
  const int line = __LINE__ + 1;
  g.Output("sum", ReduceSum(x, {0}));
  const Session session = Session::Create(g).value();
  EXPECT_THAT(session.Explain({.search = true}), testing::StartsWith(session.Explain()));
  EXPECT_EQ(
      session.Explain({.search = true}),
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

// ---- Ways to run it.

// Coalesced devices add up in an order of their own, whatever the number of workers.
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

// Rows of 8 units, sharded by x=4 if the mesh has it, are read as 2 heads of 4 units and scaled.
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
  const std::string_view message =
      "Session: it was moved to another one, or lost its state in a Remesh that failed; go on with another one.";
  EXPECT_EQ(MessageOf(first.Run(Examples(6)).status()), message);
  EXPECT_EQ(MessageOf(first.Evaluate(Examples(6)).status()), message);
  EXPECT_EQ(MessageOf(first.Bind(Examples(6)).status()), message);
  EXPECT_EQ(MessageOf(first.Get("w").status()), message);
  EXPECT_EQ(MessageOf(first.Set("w", Tensor())), message);
  EXPECT_THAT(first.Explain(), HasSubstr(message));
  EXPECT_THAT(first.variable_names(), testing::IsEmpty());
  EXPECT_EQ(first.RowsHere(6), (RowRange{0, 6}));
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
  EXPECT_EQ(Session::Create(g)->Get("w")->values<float>()[1], 3);  // to see the initial value
  Relu(w);
  EXPECT_THAT(MessageOf(Session::Create(g).status()), EndsWith(message));
  g.Output("y", w);
  EXPECT_TRUE(Session::Create(g).ok());
}

TEST(SessionTest, MovesAndOutlivesItsGraph) {
  auto make = [] { return Session::Create(Classifier("batch=2", 6)).value(); };
  Session first = make();
  Session second = std::move(first);
  first = make();
  ExpectBitwiseEqual(first.Run(Examples(6))->outputs(), second.Run(Examples(6))->outputs());
}

}  // namespace
}  // namespace meshwork::session_test
