// Every synchronous strategy trains as one device does.
#include "meshwork/train/strategy/strategies.h"

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/transport/loopback.h"
#include "meshwork/train/fit/fit.h"
#include "pjrt/real_plugin.h"
#include "support/clusters.h"
#include "train/strategy/losses.h"

namespace meshwork::strategies_test {
namespace {

struct Named {
  std::string name;
  absl::StatusOr<Strategy> strategy;
};

std::vector<Named> Synchronous() {
  std::vector<Named> all;
  for (int64_t devices : {1, 2, 3, 8}) {
    const std::string n = fmt::format("{}", devices);
    all.push_back({"mirrored " + n, MirroredStrategy({.num_devices = devices})});
    all.push_back({"central storage " + n, CentralStorageStrategy({.num_devices = devices})});
    all.push_back(
        {"state in blocks " + n, FullyShardedStrategy({.num_devices = devices, .sharded = Sharded::kState})});
    all.push_back(
        {"all in blocks " + n, FullyShardedStrategy({.num_devices = devices, .least_in_blocks = 1})});
  }
  all.push_back({"hybrid", FullyShardedStrategy({.num_devices = 8, .group = 2, .least_in_blocks = 1})});
  all.push_back({"mesh", MeshStrategy("batch=2,model=2", {.layouts = {{"in/kernel", {UNSHARDED, "model"}},
                                                                      {"out/kernel", {"model", UNSHARDED}},
                                                                      {"*/bias", {"seq"}}}})});
  all.push_back({"default", Strategy::Default()});
  // As tests/pjrt/check has it.
  if (!RealPlugin().empty())
    for (int64_t devices : {1, 3, 8})
      all.push_back({fmt::format("tpu {}", devices),
                     TPUStrategy({.devices = RealPjrtDevices(), .num_devices = devices})});
  return all;
}

class StrategiesTest : public ::testing::Test {
 protected:
  static void ExpectNear(const std::vector<double>& losses, const std::vector<double>& expected) {
    ASSERT_EQ(losses.size(), expected.size());
    for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected[i], 1e-9) << "step " << i;
  }
};

TEST_F(StrategiesTest, TheWholeBatchTrainsAsOnOneDevice) {
  const std::vector<double> expected = Losses(OneDeviceStrategy().value(), BuildWhole);
  EXPECT_LT(expected.back(), expected.front());
  for (const Named& named : Synchronous()) {
    SCOPED_TRACE(named.name);
    ASSERT_TRUE(named.strategy.ok()) << MessageOf(named.strategy.status());
    ExpectNear(Losses(*named.strategy, BuildWhole), expected);
  }
}

TEST_F(StrategiesTest, ReplicasTrainAsTheWholeBatchOnOneDevice) {
  const std::vector<double> expected = Losses(OneDeviceStrategy().value(), BuildWhole);
  for (const Named& named : Synchronous()) {
    SCOPED_TRACE(named.name);
    ASSERT_TRUE(named.strategy.ok()) << MessageOf(named.strategy.status());
    ExpectNear(Losses(*named.strategy, BuildForReplicas), expected);
  }
}

// Fit over batches with a short last one.
TEST_F(StrategiesTest, FitIsTheSameUnderAll) {
  const Feeds data = DrawBatch(0, 37);
  const auto losses = [&](const Strategy& strategy) {
    const StrategyScope scope(strategy);
    Graph graph = NewGraph();
    BuildWhole(graph, Momentum({.learning_rate = 0.1}));
    Session session = NewSession(graph, {.workers = 1}).value();
    const History history =
        Fit(session, BatchesOf(data, {.batch_size = kBatch, .shuffle_seed = 3}).value(), {.epochs = 10})
            .value();
    return history.Of("loss");
  };
  const std::vector<double> expected = losses(OneDeviceStrategy().value());
  for (const Named& named : Synchronous()) {
    SCOPED_TRACE(named.name);
    ExpectNear(losses(named.strategy.value()), expected);
  }
}

// A graph that is trained, with outputs of all forms: a scalar, rows of the batch, and a row of classes.
std::map<std::string, Tensor> OutputsOf(const Strategy& strategy) {
  const StrategyScope scope(strategy);
  Graph graph = NewGraph();
  const Value x = graph.Input("x", F64, {kBatch, kInputs}), y = graph.Input("y", I32, {kBatch});
  const SmallModel model(graph);
  const Value losses = model.LossOfEach(x, y);
  Sgd({.learning_rate = 0.1}).Minimize(ReduceMean(losses));
  graph.Output("loss", ReduceMean(losses));
  graph.Output("losses", losses);
  graph.Output("hidden", Tanh(model.in(x)));
  graph.Output("classes", ReduceSum(model.out(Tanh(model.in(x))), 0));
  Session session = NewSession(graph, {.workers = 1, .own_cores = false}).value();
  std::map<std::string, Tensor> outputs = session.Run(DrawBatch(0))->outputs();
  const StepResult of_short_batch = session.Evaluate(DrawBatch(1, 7)).value();
  for (const auto& [name, tensor] : of_short_batch.outputs()) outputs["short " + name] = tensor;
  return outputs;
}

// Several processes give whole outputs, as one process does. Here each process is a thread.
TEST_F(StrategiesTest, OutputsAreTheSameInSeveralProcesses) {
  const std::map<std::string, Tensor> expected = OutputsOf(OneDeviceStrategy().value());
  for (const int64_t processes : {2, 3}) {
    std::vector<std::unique_ptr<Transport>> ends = MakeLoopback(processes);
    std::vector<Strategy> strategies;
    for (int64_t p = 0; p < processes; ++p) {
      StrategyParts parts;
      parts.name = "Workers";
      parts.mesh = Mesh::VirtualCpus(fmt::format("replica={}", processes)).value();
      parts.replica_axes = parts.layouts.batch = {"replica"};
      parts.processes = std::make_shared<Processes>(Processes::Among(
          LocalCluster(processes, p, /*port=*/100), std::move(ends[static_cast<size_t>(p)]), "a thread"));
      strategies.push_back(Strategy::Create(std::move(parts)).value());
    }
    std::vector<std::thread> threads;
    for (const Strategy& strategy : strategies)
      threads.emplace_back([&] {
        const std::map<std::string, Tensor> outputs = OutputsOf(strategy);
        ASSERT_EQ(outputs.size(), expected.size());
        for (const auto& [name, tensor] : expected) {
          SCOPED_TRACE(name);
          ASSERT_EQ(outputs.at(name).type(), tensor.type());
          for (int64_t i = 0; i < tensor.num_elements(); ++i)
            EXPECT_NEAR(outputs.at(name).values<double>()[static_cast<size_t>(i)],
                        tensor.values<double>()[static_cast<size_t>(i)], 1e-12);
        }
      });
    for (std::thread& thread : threads) thread.join();
  }
}

// Which variables lie in blocks, and which are whole.
TEST_F(StrategiesTest, VariablesLieAsTheStrategySays) {
  const auto layout = [](const Strategy& strategy, const std::string& variable) {
    const StrategyScope scope(strategy);
    Graph graph = NewGraph();
    BuildWhole(graph, Adam({}));
    return NewSession(graph, {.workers = 1})->LayoutOf(variable)->ToString();
  };
  EXPECT_EQ(layout(MirroredStrategy({.num_devices = 4}).value(), "in/kernel"), "{_,_}");
  const Strategy all = FullyShardedStrategy({.num_devices = 4, .least_in_blocks = 48}).value();
  EXPECT_EQ(layout(all, "in/kernel"), "{_,block}");   // f64[6,16]: 4 divides 16
  EXPECT_EQ(layout(all, "out/kernel"), "{block,_}");  // f64[16,3]
  EXPECT_EQ(layout(all, "in/bias"), "{_}");           // 16 elements
  const Strategy hybrid = FullyShardedStrategy({.num_devices = 4, .group = 2, .least_in_blocks = 48}).value();
  EXPECT_EQ(hybrid.mesh().ToString(), "[copy=2, block=2]");
  EXPECT_EQ(hybrid.num_replicas_in_sync(), 4);
  EXPECT_EQ(layout(hybrid, "in/kernel"), "{_,block}");
}

TEST_F(StrategiesTest, SayWhatTheyAre) {
  EXPECT_EQ(MirroredStrategy({.num_devices = 8})->ToString(), "MirroredStrategy on [replica=8], 8 replicas");
  EXPECT_EQ(OneDeviceStrategy()->ToString(), "OneDeviceStrategy on [replica=1], 1 replica");
  EXPECT_EQ(Strategy::Default().ToString(), "DefaultStrategy on [], 1 replica");
  EXPECT_GE(MirroredStrategy()->num_replicas_in_sync(), 1);
  const Strategy mesh = MeshStrategy("batch=4,model=2").value();
  EXPECT_EQ(mesh.num_replicas_in_sync(), 4);
}

// ---- Scopes.

TEST(StrategyScopeTest, TheInnermostCounts) {
  EXPECT_FALSE(HasStrategy());
  EXPECT_EQ(GetStrategy(), Strategy::Default());
  const Strategy one = OneDeviceStrategy().value(), two = MirroredStrategy({.num_devices = 2}).value();
  {
    const StrategyScope outer = one.Scope();
    EXPECT_EQ(GetStrategy(), one);
    {
      const StrategyScope inner = two.Scope();
      EXPECT_EQ(GetStrategy(), two);
      EXPECT_EQ(NewGraph().mesh().num_devices(), 2);
    }
    EXPECT_EQ(GetStrategy(), one);
    EXPECT_TRUE(HasStrategy());
  }
  EXPECT_FALSE(HasStrategy());
}

TEST(StrategyScopeTest, DefaultPassesEverythingThrough) {
  Graph graph = NewGraph();
  BuildForReplicas(graph, Sgd({}));
  ASSERT_EQ(graph.status(), absl::OkStatus());
  EXPECT_EQ(NewSession(graph)->program().body.mesh().num_devices(), 1);
}

}  // namespace
}  // namespace meshwork::strategies_test
