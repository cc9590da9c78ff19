// The rows that each process reads, and how short batches reach a program.
#include "meshwork/train/strategy/distribute.h"

#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/train/strategy/replica.h"
#include "meshwork/train/strategy/strategies.h"
#include "train/strategy/losses.h"

namespace meshwork::distribute_test {
namespace {

using ::testing::ElementsAre;

Pipeline Numbers(int64_t n) {
  return Pipeline::FromFunction(n, [](int64_t i) {
    return Example{{"x", Tensor::Full({F64, {}}, static_cast<double>(i))}};
  });
}

std::vector<double> Column(const Example& batch, std::string_view name) {
  const Tensor tensor = batch[name].Cast(F64);
  return {tensor.values<double>().begin(), tensor.values<double>().end()};
}

TEST(InputContextTest, DividesBatchesAndFiles) {
  const InputContext context{.input_pipeline_id = 1, .num_input_pipelines = 2, .num_replicas_in_sync = 8};
  EXPECT_EQ(context.PerReplicaBatchSize(64).value(), 8);
  EXPECT_EQ(context.PerPipelineBatchSize(64).value(), 32);
  EXPECT_FALSE(context.PerReplicaBatchSize(60).ok());
  EXPECT_THAT(context.FilesOf({"a", "b", "c", "d", "e"}), ElementsAre("b", "d"));
  const InputContext alone = InputContextOf(MirroredStrategy({.num_devices = 4}).value());
  EXPECT_EQ(alone.num_input_pipelines, 1);
  EXPECT_EQ(alone.num_replicas_in_sync, 4);
}

TEST(DistributeTest, ShortBatchesAreFilledUp) {
  const Strategy strategy = MirroredStrategy({.num_devices = 2}).value();
  const Pipeline data =
      DistributeDataset(strategy, Numbers(5).Batch(4), {.batch_size = 4, .rows = "rows"}).value();
  PipelineIterator walk = data.Begin();
  const Example full = **walk.Next(), tail = **walk.Next();
  EXPECT_THAT(Column(full, "x"), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(Column(full, "rows"), ElementsAre(4));
  EXPECT_THAT(Column(tail, "x"), ElementsAre(4, 0, 0, 0));
  EXPECT_THAT(Column(tail, "rows"), ElementsAre(1));
  EXPECT_FALSE(walk.Next()->has_value());
}

TEST(DistributeTest, SharesStandAtTheirPlaceInABatch) {
  const InputContext context{.input_pipeline_id = 1, .num_input_pipelines = 3};
  PipelineIterator walk = WholeBatchesOf(Numbers(4).Batch(2), context).Begin();
  EXPECT_THAT(Column(**walk.Next(), "x"), ElementsAre(0, 0, 0, 1, 0, 0));
  EXPECT_THAT(Column(**walk.Next(), "x"), ElementsAre(0, 0, 2, 3, 0, 0));
}

// With one process, all policies give the batches unchanged.
TEST(DistributeTest, OneProcessReadsEverything) {
  const Strategy strategy = MirroredStrategy({.num_devices = 2}).value();
  for (const AutoShard policy : {AutoShard::kAuto, AutoShard::kData, AutoShard::kOff}) {
    PipelineIterator walk = DistributeDataset(strategy, Numbers(3).Batch(2), {.policy = policy})->Begin();
    EXPECT_THAT(Column(**walk.Next(), "x"), ElementsAre(0, 1));
    EXPECT_THAT(Column(**walk.Next(), "x"), ElementsAre(2));
  }
  const Pipeline own = DistributeDatasetsFromFunction(strategy, [](const InputContext& context) {
                         EXPECT_EQ(context.num_replicas_in_sync, 2);
                         return Numbers(2).Batch(2);
                       }).value();
  EXPECT_THAT(Column(**own.Begin().Next(), "x"), ElementsAre(0, 1));
}

TEST(DistributeTest, AValueForEachReplica) {
  const Strategy strategy = MirroredStrategy({.num_devices = 3}).value();
  const Tensor values = DistributeValuesFromFunction(strategy, [](int64_t replica) {
                          return Tensor::Full({F64, {2}}, static_cast<double>(10 * replica));
                        }).value();
  EXPECT_EQ(values.type(), (Type{F64, {3, 2}}));
  EXPECT_THAT(values.values<double>(), ElementsAre(0, 0, 10, 10, 20, 20));
}

// A custom loop over batches with a short last one, compared with the view of the whole batch on one device.
TEST(DistributeTest, ACustomLoopIsTheWholeBatchOnOneDevice) {
  const Feeds data = DrawBatch(0, 37);
  const Pipeline batches =
      Pipeline::From(Dataset::Create({{"x", data.at("x")}, {"y", data.at("y")}}).value()).Batch(kBatch);
  std::vector<double> expected;
  {
    const Strategy one = OneDeviceStrategy().value();
    const StrategyScope scope(one);
    Graph graph = NewGraph();
    BuildWhole(graph, Sgd({.learning_rate = 0.1}));
    Session session = NewSession(graph).value();
    for (int epoch = 0; epoch < 10; ++epoch)
      for (const Example& b : batches)
        expected.push_back(session.Run({{"x", b["x"]}, {"y", b["y"]}})->scalar("loss").value());
  }
  ASSERT_EQ(expected.size(), 40u);
  for (const int64_t devices : {1, 2, 3, 8}) {
    const Strategy strategy = MirroredStrategy({.num_devices = devices}).value();
    const StrategyScope scope(strategy);
    Graph graph = NewGraph();
    const Value x = graph.Input("x", F64, {kBatch, kInputs}), y = graph.Input("y", I32, {kBatch});
    const Value rows = graph.Input("rows", I64, {});
    const SmallModel model(graph);
    const std::vector<PerReplica> losses = strategy.Run(
        graph, {x, y},
        [&](ReplicaContext& replica, const std::vector<Value>& part) {
          const Value loss = replica.AverageLoss(model.LossOfEach(part[0], part[1]));
          replica.Minimize(Sgd({.learning_rate = 0.1}), loss);
          return std::vector<Value>{loss};
        },
        rows);
    graph.Output("loss", strategy.Reduce(ReplicaReduce::kSum, losses[0]));
    Session session = NewSession(graph).value();
    const Pipeline distributed =
        DistributeDataset(strategy, batches, {.batch_size = kBatch, .rows = "rows"}).value();
    size_t step = 0;
    for (int epoch = 0; epoch < 10; ++epoch)
      for (const Example& b : distributed)
        EXPECT_NEAR(session.Run({{"x", b["x"]}, {"y", b["y"]}, {"rows", b["rows"]}})->scalar("loss").value(),
                    expected[step++], 1e-9)
            << devices << " devices, step " << step;
  }
}

}  // namespace
}  // namespace meshwork::distribute_test
