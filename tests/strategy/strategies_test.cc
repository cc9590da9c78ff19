// Every synchronous strategy trains as one device does.
#include "meshwork/strategy/strategies.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/train/fit.h"
#include "strategy/losses.h"

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
    all.push_back({"mirrored " + n, MirroredStrategy({.devices = devices})});
    all.push_back({"central storage " + n, CentralStorageStrategy({.devices = devices})});
    all.push_back(
        {"state in blocks " + n, FullyShardedStrategy({.devices = devices, .sharded = Sharded::kState})});
    all.push_back({"all in blocks " + n, FullyShardedStrategy({.devices = devices, .least_in_blocks = 1})});
  }
  all.push_back({"hybrid", FullyShardedStrategy({.devices = 8, .group = 2, .least_in_blocks = 1})});
  all.push_back({"mesh", MeshStrategy("batch=2,model=2", {.layouts = {{"in/kernel", {UNSHARDED, "model"}},
                                                                      {"out/kernel", {"model", UNSHARDED}},
                                                                      {"*/bias", {"seq"}}}})});
  all.push_back({"default", Strategy::Default()});
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

// Fit goes over batches of which the last one is short.
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

// What is in blocks, and what is not.
TEST_F(StrategiesTest, VariablesLieAsTheStrategySays) {
  const auto layout = [](const Strategy& strategy, const std::string& variable) {
    const StrategyScope scope(strategy);
    Graph graph = NewGraph();
    BuildWhole(graph, Adam({}));
    return NewSession(graph, {.workers = 1})->LayoutOf(variable)->ToString();
  };
  EXPECT_EQ(layout(MirroredStrategy({.devices = 4}).value(), "in/kernel"), "{_,_}");
  const Strategy all = FullyShardedStrategy({.devices = 4, .least_in_blocks = 48}).value();
  EXPECT_EQ(layout(all, "in/kernel"), "{_,block}");   // f64[6,16]: 4 divides 16
  EXPECT_EQ(layout(all, "out/kernel"), "{block,_}");  // f64[16,3]
  EXPECT_EQ(layout(all, "in/bias"), "{_}");           // 16 elements
  const Strategy hybrid = FullyShardedStrategy({.devices = 4, .group = 2, .least_in_blocks = 48}).value();
  EXPECT_EQ(hybrid.mesh().ToString(), "[copy=2, block=2]");
  EXPECT_EQ(hybrid.num_replicas_in_sync(), 4);
  EXPECT_EQ(layout(hybrid, "in/kernel"), "{_,block}");
}

TEST_F(StrategiesTest, SayWhatTheyAre) {
  EXPECT_EQ(MirroredStrategy({.devices = 8})->ToString(), "MirroredStrategy on [replica=8], 8 replicas");
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
  const Strategy one = OneDeviceStrategy().value(), two = MirroredStrategy({.devices = 2}).value();
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
