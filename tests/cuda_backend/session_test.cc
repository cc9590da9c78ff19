// Sessions on a GPU that is simulated, beside the same sessions on the CPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cuda_backend/played_gpu.h"
#include "meshwork.h"
#include "meshwork/base/status.h"
#include "meshwork/train/evaluation.h"
#include "meshwork/train/replica_check.h"
#include "support/forks.h"

namespace meshwork {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kBatch = 8;

// x: f32[8,5], y: i32[8] -> loss, accuracy, logits. Momentum, a metric, averages of the weights.
Graph SmallMlp(const std::string& mesh = "batch=2,model=2") {
  Graph g(Mesh::VirtualCpus(mesh).value());
  const Value x = g.Input("x", F32, {kBatch, 5}, {"batch", UNSHARDED});
  const Value y = g.Input("y", I32, {kBatch}, {"batch"});
  const Dense first(g, "first", 5, 6, {.kernel_layout = {UNSHARDED, "model"}, .bias_layout = {"model"}});
  const Dense second(g, "second", 6, 3, {.kernel_layout = {"model", UNSHARDED}});
  const Value logits = second(Tanh(first(x)));
  const Value loss = SparseSoftmaxCrossEntropy(logits, y);
  Momentum({.learning_rate = 0.2}).Minimize(loss);
  AverageWeights(g, {.decay = 0.9});
  AccuracyMetric accuracy(g, "accuracy");
  g.Output("accuracy", accuracy.Update(logits, y));
  g.Output("loss", loss);
  g.Output("logits", logits);
  return g;
}

Feeds MlpRows(int64_t rows, int64_t first = 0) {
  std::vector<float> x;
  std::vector<int32_t> y;
  for (int64_t i = first; i < first + rows; ++i) {
    for (int64_t j = 0; j < 5; ++j) x.push_back(static_cast<float>((i * 7 + j * 3) % 11 - 5) / 5);
    y.push_back(static_cast<int32_t>(i * 5 % 3));
  }
  return {{"x", Tensor::From<float>({rows, 5}, x)}, {"y", Tensor::From<int32_t>({rows}, y)}};
}

void ExpectNear(const Tensor& actual, const Tensor& expected) {
  ASSERT_EQ(actual.type(), expected.type());
  const Tensor a = actual.Cast(F64), e = expected.Cast(F64);
  for (size_t i = 0; i < static_cast<size_t>(a.num_elements()); ++i)
    EXPECT_NEAR(a.values<double>()[i], e.values<double>()[i], 1e-5) << i;
}

void ExpectNear(const absl::StatusOr<StepResult>& actual, const absl::StatusOr<StepResult>& expected) {
  ASSERT_TRUE(expected.ok()) << expected.status();
  ASSERT_TRUE(actual.ok()) << actual.status();
  ASSERT_EQ(actual->outputs().size(), expected->outputs().size());
  for (const auto& [name, tensor] : expected->outputs()) {
    SCOPED_TRACE(name);
    ExpectNear(actual->Get(name).value(), tensor);
  }
}

std::map<std::string, Tensor> ValuesOf(const Session& session) {
  std::map<std::string, Tensor> values;
  for (const std::string& name : session.variable_names()) values[name] = session.Get(name).value();
  return values;
}

void ExpectStateNear(const Session& actual, const Session& expected) {
  for (const auto& [name, tensor] : ValuesOf(expected)) {
    SCOPED_TRACE(name);
    ExpectNear(actual.Get(name).value(), tensor);
  }
}

void ExpectSameState(const Session& actual, const std::map<std::string, Tensor>& expected) {
  EXPECT_EQ(actual.variable_names().size(), expected.size());
  for (const auto& [name, tensor] : expected)
    EXPECT_TRUE(AllEqual(actual.Get(name).value(), tensor).ok()) << name;
}

Session OnCpu(const Graph& graph, SessionOptions options = {}) {
  options.workers = 2;
  return Session::Create(graph, std::move(options)).value();
}

Session OnGpu(PlayedGpu& gpu, const Graph& graph, SessionOptions options = {}) {
  options.backend = gpu.MakeBackend().value();
  return Session::Create(graph, std::move(options)).value();
}

void ExpectClean(PlayedGpu& gpu) {
  EXPECT_THAT(gpu.cuda.TakeFindings(), IsEmpty());
  EXPECT_THAT(gpu.cuda.TakeLeaks(), IsEmpty());
}

TEST(CudaSessionTest, TrainsAndEvaluatesAsOnTheCpu) {
  PlayedGpu gpu(1);
  for (const bool atomic : {false, true}) {
    SCOPED_TRACE(atomic);
    Session cpu = OnCpu(SmallMlp(), {.executor = {.atomic = atomic}});
    Session on_gpu = OnGpu(gpu, SmallMlp(), {.executor = {.atomic = atomic}});
    EXPECT_FALSE(on_gpu.State().at("first/kernel").memory().is_host());
    EXPECT_EQ(on_gpu.LayoutOf("first/kernel")->ToString(), "{_,model}");
    ExpectStateNear(on_gpu, cpu);  // what the initializers make
    // The last batch is shorter.
    for (const int64_t rows : {kBatch, kBatch, kBatch, int64_t{5}})
      ExpectNear(on_gpu.Run(MlpRows(rows, rows)), cpu.Run(MlpRows(rows, rows)));
    EXPECT_EQ(on_gpu.steps_done(), 4);
    ExpectStateNear(on_gpu, cpu);

    ASSERT_TRUE(ResetMetrics(on_gpu).ok() && ResetMetrics(cpu).ok());
    for (int64_t first : {0, 3})
      ExpectNear(on_gpu.Accumulate(MlpRows(kBatch, first), {"accuracy"}),
                 cpu.Accumulate(MlpRows(kBatch, first), {"accuracy"}));
    EXPECT_EQ(on_gpu.Get("metrics/accuracy/count")->Scalar().value(), 2 * kBatch);
    ExpectNear(on_gpu.Evaluate(MlpRows(kBatch), {"loss"}), cpu.Evaluate(MlpRows(kBatch), {"loss"}));
    const Feeds many = {{"x", MlpRows(11).at("x")}};
    ExpectNear(on_gpu.Predict(many, {"logits"}), cpu.Predict(many, {"logits"}));

    EXPECT_EQ(on_gpu.Undo().ok(), atomic);
    EXPECT_EQ(cpu.Undo().ok(), atomic);
    ExpectStateNear(on_gpu, cpu);
  }
  ExpectClean(gpu);
}

TEST(CudaSessionTest, VariablesAreReadAndSet) {
  PlayedGpu gpu(2);
  {
    Session session = OnGpu(gpu, SmallMlp());
    const Tensor kernel = MlpRows(6).at("x").Reshaped({5, 6});
    ASSERT_TRUE(session.Set("first/kernel", kernel).ok());
    EXPECT_TRUE(AllEqual(session.Get("first/kernel").value(), kernel).ok());
    const std::vector<Shard> shards = session.Shards("first/kernel").value();
    ASSERT_EQ(shards.size(), 4u);
    EXPECT_EQ(BlockToString(shards[1].box), "[0:5,3:6]");
    for (int64_t row = 0; row < 5; ++row)
      for (int64_t column = 0; column < 3; ++column)
        EXPECT_EQ(shards[1].tensor.values<float>()[static_cast<size_t>(row * 3 + column)],
                  kernel.values<float>()[static_cast<size_t>(row * 6 + column + 3)]);
    Session moved = std::move(session);
    EXPECT_TRUE(AllEqual(moved.Get("first/kernel").value(), kernel).ok());
    EXPECT_EQ(session.Get("first/kernel").status().code(), absl::StatusCode::kFailedPrecondition);  // NOLINT
  }
  ExpectClean(gpu);
}

TEST(CudaSessionTest, CheckpointsGoFromOneToTheOther) {
  const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
  const std::string dir = fmt::format("{}meshwork-{}-{}", testing::TempDir(), test.name(), getpid());
  PlayedGpu gpu(3);
  {
    Session on_gpu = OnGpu(gpu, SmallMlp());
    ASSERT_TRUE(on_gpu.Run(MlpRows(kBatch)).ok());
    ASSERT_EQ(MessageOf(on_gpu.Save(dir + "/gpu", {.step = 1})), "");
    // On another mesh, too.
    Session cpu = OnCpu(SmallMlp("batch=4,model=1"));
    ASSERT_EQ(cpu.Restore(dir + "/gpu")->step, 1);
    ExpectSameState(cpu, ValuesOf(on_gpu));
    ExpectNear(on_gpu.Run(MlpRows(kBatch, 2)), cpu.Run(MlpRows(kBatch, 2)));

    ASSERT_EQ(MessageOf(cpu.Save(dir + "/cpu", {.step = 2})), "");
    ASSERT_EQ(on_gpu.Restore(dir + "/cpu")->step, 2);
    ExpectSameState(on_gpu, ValuesOf(cpu));
    ExpectNear(on_gpu.Run(MlpRows(kBatch, 3)), cpu.Run(MlpRows(kBatch, 3)));
  }
  ExpectClean(gpu);
  std::filesystem::remove_all(dir);
}

TEST(CudaSessionTest, GoesOnOnAnotherMesh) {
  PlayedGpu gpu(4);
  {
    Session cpu = OnCpu(SmallMlp());
    Session on_gpu = OnGpu(gpu, SmallMlp(), {.executor = {.atomic = true}});
    ExpectNear(on_gpu.Run(MlpRows(kBatch)), cpu.Run(MlpRows(kBatch)));
    const std::map<std::string, Tensor> before = ValuesOf(on_gpu);
    const Mesh three = Mesh::Parse("batch=1,model=3").value();
    ASSERT_EQ(MessageOf(on_gpu.Remesh(three).status()), "");
    ASSERT_EQ(MessageOf(cpu.Remesh(three).status()), "");
    EXPECT_EQ(on_gpu.program().body.mesh().ToString(), "[batch=1, model=3]");
    EXPECT_FALSE(on_gpu.State().at("first/kernel").memory().is_host());
    ExpectSameState(on_gpu, before);
    ExpectNear(on_gpu.Run(MlpRows(kBatch, 1)), cpu.Run(MlpRows(kBatch, 1)));
    ExpectStateNear(on_gpu, cpu);
  }
  ExpectClean(gpu);
}

// A fed tensor that is written between steps, and one that lies on the GPU.
TEST(CudaSessionTest, BindsToMemoryOfBoth) {
  PlayedGpu gpu(5);
  {
    Session cpu = OnCpu(SmallMlp());
    Session on_gpu = OnGpu(gpu, SmallMlp(), {.executor = {.distributed = {"x"}}});
    DTensor x = on_gpu.NewFeed("x").value();
    EXPECT_FALSE(x.memory().is_host());
    Feeds feeds = MlpRows(kBatch);
    BoundStep step =
        on_gpu.Bind(StepMemory{.feeds = {{"y", feeds.at("y")}}, .distributed_feeds = {{"x", x}}}).value();
    for (int64_t first : {0, 4, 1}) {
      const Feeds next = MlpRows(kBatch, first);
      ASSERT_TRUE(Pack(next.at("x"), x).ok());
      const Tensor& labels = next.at("y");
      std::copy_n(labels.values<int32_t>().data(), kBatch, feeds.at("y").mutable_values<int32_t>().data());
      ASSERT_EQ(MessageOf(step.Run()), "");
      ExpectNear(step.outputs().at("loss"), cpu.Run(next)->Get("loss").value());
    }
  }
  ExpectClean(gpu);
}

// The callback keeps a copy of the variables and puts it back.
TEST(CudaSessionTest, FitEvaluatesAndRestoresTheBestEpoch) {
  PlayedGpu gpu(6);
  {
    Graph g(Mesh::VirtualCpus("batch=2").value());
    const Value x = g.Input("x", F32, {2}, {"batch"});
    const Variable seen = g.Var("seen", Zeros({2}, F32), {"batch"});
    g.Update(seen, x);
    g.Output("loss", ReduceSum(x, {0}));
    Session session = OnGpu(gpu, g);
    const std::vector<float> losses = {5, 3, 4, 6};
    const Pipeline data = Pipeline::FromFunction(4, [&](int64_t i) {
      return Example{{"x", Tensor::From<float>({2}, {losses[static_cast<size_t>(i)], 0})}};
    });
    const absl::StatusOr<History> history = Fit(
        session, data,
        {.epochs = 4,
         .steps_per_epoch = 1,
         .callbacks = {EarlyStopping({.monitor = "loss", .patience = 2, .restore_best = true}), StopOnNan()},
         .log = [](std::string_view) {}});
    ASSERT_TRUE(history.ok()) << history.status();
    EXPECT_EQ(history->steps, 4);
    EXPECT_EQ(session.Get("seen")->values<float>()[0], 3);
    const absl::StatusOr<Metrics> evaluation = EvaluateOn(session, data);
    ASSERT_TRUE(evaluation.ok()) << evaluation.status();
    EXPECT_EQ(evaluation->at("loss"), 4.5);
  }
  ExpectClean(gpu);
}

// Each device has its own copy of what is replicated, and one is changed behind the session's back.
TEST(CudaSessionTest, ReplicasAreCompared) {
  PlayedGpu gpu(10);
  {
    Session session = OnGpu(gpu, SmallMlp(), {.executor = {.share = false}});
    ASSERT_TRUE(session.Run(MlpRows(kBatch)).ok());
    EXPECT_EQ(MessageOf(CheckReplicas(session.State(), 1)), "");
    DTensor bias = session.State().at("second/bias");
    ASSERT_EQ(bias.instances().count(), 4);
    const std::vector<float> other = {1, 2, 3};
    ASSERT_TRUE(bias.memory()
                    .Upload(BoxCopy::Linear(3), sizeof(float),
                            reinterpret_cast<const std::byte*>(other.data()), bias.instance(2))
                    .ok());
    EXPECT_THAT(MessageOf(CheckReplicas(session.State(), 1)), HasSubstr("variable \"second/bias\""));
  }
  ExpectClean(gpu);
}

// The program of an evaluation is another one here, and has a session of its own, on the same GPU.
TEST(CudaSessionTest, AnEvaluationHasTheVariablesOfTheTraining) {
  PlayedGpu gpu(11);
  {
    const ModelFn model = [](Mode mode) {
      Graph g(Mesh::VirtualCpus("batch=2").value());
      const Value x = g.Input("x", F32, {4}, {"batch"});
      const Variable w = g.Var("w", Zeros({4}, F32), {"batch"});
      const Value loss = ReduceSum(w * x, {0});
      if (mode == Mode::kTrain) g.Update(w, w + x);
      g.Output("loss", mode == Mode::kTrain ? loss : loss * 2.0);
      return g;
    };
    const SessionOptions options = {.backend = gpu.MakeBackend().value()};
    const Graph trained = model(Mode::kTrain);
    Session session = Session::Create(trained, options).value();
    const Tensor x = Tensor::From<float>({4}, {1, 2, 3, 4});
    absl::StatusOr<EvaluationHere> here = EvaluationHere::Create(model, trained, session, options);
    ASSERT_TRUE(here.ok()) << here.status();
    EXPECT_TRUE(here->has_own_session());
    const EvalSpec spec = {.input = {.dataset = Dataset::Create({{"x", x}}).value(),
                                     .batches = {.batch_size = 4},
                                     .feeds = [](const Batch& batch) {
                                       return Feeds{{"x", batch["x"]}};
                                     }}};
    for (int step = 1; step <= 2; ++step) {
      ASSERT_TRUE(session.Run({{"x", x}}).ok());
      EXPECT_EQ(here->Run(spec)->at("loss"), step * 60.0);
    }
  }
  ExpectClean(gpu);
}

// Two sessions share the variables' memory, not the variables.
TEST(CudaSessionTest, SessionsMayShareABackend) {
  PlayedGpu gpu(7);
  {
    const std::shared_ptr<Backend> backend = gpu.MakeBackend().value();
    Session one = Session::Create(SmallMlp(), {.backend = backend}).value();
    Session two = Session::Create(SmallMlp(), {.backend = backend}).value();
    ASSERT_TRUE(one.Run(MlpRows(kBatch)).ok());
    EXPECT_FALSE(AllEqual(one.Get("first/kernel").value(), two.Get("first/kernel").value()).ok());
    ExpectNear(two.Run(MlpRows(kBatch)), OnCpu(SmallMlp()).Run(MlpRows(kBatch)));
    ExpectSameState(two, ValuesOf(one));
  }
  ExpectClean(gpu);
}

TEST(CudaSessionTest, SaysWhatTheGpuLacks) {
  PlayedGpu gpu(8, {.bytes = 400});
  const std::shared_ptr<Backend> backend = gpu.MakeBackend().value();
  Graph g(Mesh::VirtualCpus("batch=2").value());
  g.Output("y", g.Input("x", F32, {4}, {"batch"}) + g.Var("w", Zeros({400}, F32), {UNSHARDED})[0]);
  const absl::Status status = Session::Create(g, {.backend = backend}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(MessageOf(status), HasSubstr("Session: GPU 0 (Simulated GPU): "));
  EXPECT_THAT(gpu.cuda.TakeFindings(), IsEmpty());
}

// The driver is the parent's: a child does not call it, not even to free.
TEST(CudaSessionTest, FailsInTheChildOfAFork) {
  if (!kMayFork) GTEST_SKIP();
  PlayedGpu gpu(9);
  {
    Session session = OnGpu(gpu, SmallMlp());
    Session unbound = OnGpu(gpu, SmallMlp());
    BoundStep step = session.Bind(MlpRows(kBatch)).value();
    const std::string said = SaidByChild([&] {
      std::string text;
      for (const absl::Status& status :
           {session.Run(MlpRows(kBatch)).status(), session.Get("first/kernel").status(),
            session.Shards("first/kernel").status(), session.Save("/nowhere"), step.Run()})
        text += fmt::format("{}; ",
                            status.ok() ? "OK" : MessageOf(status).substr(0, MessageOf(status).find(',')));
      gpu.cuda.FailAnyCall(1);
      { const Session gone = std::move(unbound); }
      return fmt::format("{}and calls \"{}\"", text, gpu.cuda.failed_call());
    });
    const std::string refused = "Session: it is the parent's; ";
    EXPECT_EQ(said,
              refused + refused + refused + refused + "CudaBackend: it is the parent's; and calls \"\"");
    EXPECT_TRUE(session.Run(MlpRows(kBatch)).ok());
  }
  ExpectClean(gpu);
}

}  // namespace
}  // namespace meshwork
