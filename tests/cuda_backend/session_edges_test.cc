// Sessions on a simulated GPU: several on one GPU, memory that runs out, memory of other processes, servers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cuda_backend/played_session.h"
#include "meshwork/base/status.h"
#include "meshwork/train/cluster/replica_check.h"
#include "meshwork/train/fit/evaluation.h"
#include "support/forks.h"
#include "support/small_session.h"
#include "train/parameter_server/models.h"

namespace meshwork::session_edges_test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Two sessions share a backend and its memory, but not their variables.
TEST(CudaSessionEdgesTest, SessionsMayShareABackend) {
  PlayedGpu gpu(7);
  {
    const std::shared_ptr<Backend> backend = gpu.MakeBackend().value();
    Session one = Session::Create(SmallMlp(), {.backend = backend}).value();
    Session two = Session::Create(SmallMlp(), {.backend = backend}).value();
    ASSERT_TRUE(one.Run(MlpRows(kMlpRows)).ok());
    EXPECT_FALSE(AllEqual(one.Get("first/kernel").value(), two.Get("first/kernel").value()).ok());
    ExpectNear(two.Run(MlpRows(kMlpRows)), OnCpu(SmallMlp()).Run(MlpRows(kMlpRows)));
    ExpectSameState(two, ValuesOf(one));
  }
  ExpectClean(gpu);
}

TEST(CudaSessionEdgesTest, SaysWhatTheGpuLacks) {
  PlayedGpu gpu(8, {.bytes = 400});
  const std::shared_ptr<Backend> backend = gpu.MakeBackend().value();
  Graph g(Mesh::VirtualCpus("batch=2").value());
  g.Output("y", g.Input("x", F32, {4}, {"batch"}) + g.Var("w", Zeros({400}, F32), {UNSHARDED})[0]);
  const absl::Status status = Session::Create(g, {.backend = backend}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(MessageOf(status), HasSubstr("Session: GPU 0 (Simulated GPU): "));
  EXPECT_THAT(gpu.cuda.TakeFindings(), IsEmpty());
}

// Each device has its own copy of replicated variables; the test changes one copy without the session's knowledge.
TEST(CudaSessionEdgesTest, ReplicasAreCompared) {
  PlayedGpu gpu(10);
  {
    Session session = OnGpu(gpu, SmallMlp(), {.executor = {.share = false}});
    ASSERT_TRUE(session.Run(MlpRows(kMlpRows)).ok());
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

// In this test the program of the evaluation differs, and has a session of its own on the same GPU.
TEST(CudaSessionEdgesTest, AnEvaluationHasTheVariablesOfTheTraining) {
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

// The driver belongs to the parent: a child does not call it, not even to free memory.
TEST(CudaSessionEdgesTest, FailsInTheChildOfAFork) {
  if (!kMayFork) GTEST_SKIP();
  PlayedGpu gpu(9);
  {
    Session session = OnGpu(gpu, SmallMlp());
    Session unbound = OnGpu(gpu, SmallMlp());
    BoundStep step = session.Bind(MlpRows(kMlpRows)).value();
    Session fed = OnGpu(gpu, SmallMlp(), {.executor = {.distributed = {"x"}}});
    DTensor feed = fed.NewFeed("x").value();
    const std::string said = SaidByChild([&] {
      std::string text;
      for (const absl::Status& status :
           {session.Run(MlpRows(kMlpRows)).status(), session.Get("first/kernel").status(),
            session.Shards("first/kernel").status(), session.Save("/nowhere"), step.Run(),
            Unpack(session.State().at("first/kernel")).status()})
        text += fmt::format("{}; ",
                            status.ok() ? "OK" : MessageOf(status).substr(0, MessageOf(status).find(',')));
      gpu.cuda.FailAnyCall(1);
      { const Session gone = std::move(unbound); }
      { const DTensor gone = std::move(feed); }
      return fmt::format("{}and calls \"{}\"", text, gpu.cuda.failed_call());
    });
    const std::string refused = "Session: it is the parent's; ";
    EXPECT_EQ(
        said,
        refused + refused + refused + refused +
            "CudaBackend: it is the parent's; GPU 0 (Simulated GPU): it is the parent's; and calls \"\"");
    EXPECT_TRUE(session.Run(MlpRows(kMlpRows)).ok());
  }
  ExpectClean(gpu);
}

// Workers compute on the GPU, servers on the CPU, even if their options name the GPU's backend.
TEST(CudaSessionEdgesTest, GradientsForServers) {
  PlayedGpu gpu(12);
  {
    const SessionOptions on_gpu = {.backend = gpu.MakeBackend().value()};
    const Graph graph =
        Regression([](const Value& loss) { Momentum({.learning_rate = 0.1}).Minimize(loss); });
    const Served served = Serve(graph, {.num_servers = 2}, {.session = on_gpu});
    ServedSession session = SessionOf(served, {.session = on_gpu});
    Session whole = OnCpu(graph);
    for (int64_t step = 0; step < 3; ++step)
      ExpectNear(session.Run(RegressionBatch(step)), whole.Run(RegressionBatch(step)));
    for (const std::string& name : whole.variable_names())
      ExpectNear(session.Get(name).value(), whole.Get(name).value());
  }
  ExpectClean(gpu);
}

}  // namespace
}  // namespace meshwork::session_edges_test
