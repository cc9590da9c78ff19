// Where training programs are cut; and that the parts compute what the whole program does.
#include "meshwork/train/parameter_server/split.h"

#include <algorithm>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/train/nn/metrics.h"
#include "meshwork/train/nn/norm_layers.h"
#include "meshwork/train/optim/averages.h"
#include "train/parameter_server/models.h"

namespace meshwork::split_test {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

struct Case {
  std::string name;
  AddUpdate update;
};

std::vector<Case> Optimizers() {
  return {
      {"Sgd", [](const Value& loss) { Sgd({.learning_rate = 0.1, .weight_decay = 0.01}).Minimize(loss); }},
      {"Momentum", [](const Value& loss) { Momentum({.learning_rate = 0.05}).Minimize(loss); }},
      {"Nesterov",
       [](const Value& loss) {
         Nesterov({.learning_rate = CosineDecay({.initial = 0.1, .steps = 9})}).Minimize(loss);
       }},
      {"Adagrad",
       [](const Value& loss) { Adagrad({.learning_rate = 0.1, .initial_accumulator = 0.1}).Minimize(loss); }},
      {"RmsProp", [](const Value& loss) { RmsProp({.momentum = 0.5, .centered = true}).Minimize(loss); }},
      {"Adam", [](const Value& loss) { Adam({.learning_rate = 0.01, .clip_norm = 0.3}).Minimize(loss); }},
      {"AdamW",
       [](const Value& loss) {
         AdamW({.learning_rate = CosineDecay({.initial = 0.1, .steps = 8}),
                .clip_norm = 0.5,
                .groups = {{.pattern = "*/bias", .learning_rate = 0.02, .weight_decay = 0},
                           {.pattern = "out/*", .clip_norm = 0.1}}})
             .Minimize(loss);
       }},
      {"Averaged",
       [](const Value& loss) {
         Adam({.learning_rate = 0.01}).Minimize(loss);
         AverageWeights(*loss.graph());
       }},
      {"ByHand",
       [](const Value& loss) {
         Graph& g = *loss.graph();
         const Variable steps = g.Var("steps", Zeros({}, I64));
         g.Update(steps, steps + 1.0);
         const Value rate = 0.1 / Cast(steps + 1.0, F64);
         for (const auto& [variable, gradient] : VariableGradients(loss)) {
           const Variable m = g.Var("m/" + g.value(variable.id()).name, Zeros(variable.shape(), F64));
           const Value next = m * 0.5 + gradient / (GlobalNorm(std::vector<Value>{gradient}) + 1.0);
           g.Update(m, next);
           g.Update(variable, variable * 0.99 - next * rate);
         }
       }},
  };
}

class SplitTest : public testing::TestWithParam<std::tuple<size_t, int64_t>> {};

TEST_P(SplitTest, ThePartsComputeWhatTheWholeDoes) {
  const auto& [i, pieces] = GetParam();
  std::vector<Feeds> batches;
  for (int64_t step = 0; step < 10; ++step) batches.push_back(RegressionBatch(step));
  ExpectSame(Regression(Optimizers()[i].update),
             {.num_servers = std::min<int64_t>(pieces, 2), .partitioner = InPieces(pieces)}, batches, 1e-12);
}

INSTANTIATE_TEST_SUITE_P(All, SplitTest,
                         testing::Combine(testing::Range<size_t>(0, Optimizers().size()),
                                          testing::Values(1, 2, 3)),
                         [](const auto& info) {
                           return Optimizers()[std::get<0>(info.param)].name +
                                  std::to_string(std::get<1>(info.param));
                         });

std::vector<std::string> PushedNames(const TrainingSplit& split, int64_t server) {
  std::vector<std::string> names;
  for (const PushedRows& pushed : split.pushed)
    if (pushed.server == server) names.push_back(pushed.name + ":" + pushed.type.ToString());
  return names;
}

TEST(SplitTrainingTest, PushesOneGradientPerWeight) {
  const Graph graph = Regression([](const Value& loss) { AdamW({.clip_norm = 1}).Minimize(loss); });
  const TrainingSplit split = SplitTraining(graph, {.num_servers = 2, .partitioner = InPieces(2)}).value();
  std::vector<std::string> names = PushedNames(split, 0), more = PushedNames(split, 1);
  names.insert(names.end(), more.begin(), more.end());
  EXPECT_THAT(names, UnorderedElementsAre("hidden/kernel/part_0:f64[3,7]", "hidden/kernel/part_1:f64[2,7]",
                                          "hidden/bias/part_0:f64[4]", "hidden/bias/part_1:f64[3]",
                                          "out/kernel/part_0:f64[4,3]", "out/kernel/part_1:f64[3,3]",
                                          "out/bias/part_0:f64[2]", "out/bias/part_1:f64[1]"));
  // Every server counts the steps. The state of a weight lies with the weight.
  int64_t steps = 0;
  for (const VariablePiece& piece : split.pieces) {
    steps += piece.variable == "adamw/step" ? 1 : 0;
    if (!piece.variable.starts_with("adamw/")) continue;
    EXPECT_FALSE(piece.is_read) << piece.name;
    if (piece.name.ends_with("/hidden/kernel/part_1")) {
      EXPECT_EQ(piece.type.ToString(), "f64[2,7]");
    }
  }
  EXPECT_EQ(steps, 2);
  EXPECT_EQ(split.worker.FindArgument("adamw/m/hidden/kernel"), -1);
  EXPECT_TRUE(split.worker.updates().empty());
}

// A worker multiplies the loss by a scale that the server may have changed by the time that the gradients come.
TEST(SplitTrainingTest, WorkersDivideByTheScaleThatTheyMultipliedBy) {
  const Graph graph = Regression(
      [](const Value& loss) {
        Adam({.learning_rate = 0.01, .loss_scale = LossScale{.initial = 64, .growth_steps = 3}})
            .Minimize(loss);
      },
      "batch=2", F32);
  const TrainingSplit split = SplitTraining(graph).value();
  std::vector<std::string> names = PushedNames(split, 0);
  EXPECT_THAT(names, UnorderedElementsAre("values/0:bool[]", "hidden/kernel:f32[5,7]", "hidden/bias:f32[7]",
                                          "out/kernel:f32[7,3]", "out/bias:f32[3]"));
  std::vector<Feeds> batches;
  for (int64_t step = 0; step < 8; ++step) batches.push_back(RegressionBatch(step, 6, F32));
  Feeds infinite = RegressionBatch(9, 6, F32);
  infinite["y"] = Tensor::Full({F32, {6, 3}}, std::numeric_limits<double>::infinity());
  batches.insert(batches.begin() + 4, infinite);
  // The loss of that step is infinite on both sides.
  ExpectSame(graph, {.num_servers = 2, .partitioner = InPieces(2)}, batches, 1e-6);
}

TEST(SplitTrainingTest, LambNeedsWholeVariables) {
  const Graph graph = Regression([](const Value& loss) { Lamb({.learning_rate = 0.01}).Minimize(loss); });
  std::vector<Feeds> batches;
  for (int64_t step = 0; step < 6; ++step) batches.push_back(RegressionBatch(step));
  ExpectSame(graph, {.num_servers = 3}, batches, 1e-12);
  EXPECT_FALSE(SplitTraining(graph, {.partitioner = InPieces(2)}).ok());
}

// Moving statistics have no gradient: what is pushed is the batch's part in them. Metrics are sums that servers add to.
TEST(SplitTrainingTest, StatisticsAndMetricsAreUpdatedByServers) {
  Graph g(Mesh::VirtualCpus("batch=2").value());
  const Value x = g.Input("x", F32, {6, 5}), y = g.Input("y", F32, {6, 3});
  const Variable w = g.Var("w", GlorotUniform({5, 3}));
  const Value h = BatchNormalization(g, "norm", 3)(MatMul(x, w));
  const Value loss = ReduceMean(Square(h - y));
  g.Output("loss", loss);
  g.Output("mean_loss", MeanMetric(g, "loss").Update(loss));
  Sgd({.learning_rate = 0.1}).Minimize(loss);
  std::vector<Feeds> batches;
  for (int64_t step = 0; step < 6; ++step) batches.push_back(RegressionBatch(step, 6, F32));
  ExpectSame(g, {.num_servers = 2, .partitioner = InPieces(2)}, batches, 1e-5);
}

TEST(SplitTrainingTest, WhatIsOnlyReadIsOnlyPulled) {
  Graph g(Mesh::VirtualCpus("batch=2").value());
  const Value x = g.Input("x", F64, {4, 3});
  const Variable fixed = g.Var("fixed", GlorotUniform({3, 3}, F64), {}, {.trainable = false});
  const Variable w = g.Var("w", Zeros({3}, F64));
  const Value loss = ReduceMean(Square(MatMul(x, fixed) * w - 1.0));
  g.Output("loss", loss);
  Momentum({}).Minimize(loss);
  const TrainingSplit split = SplitTraining(g).value();
  EXPECT_THAT(PushedNames(split, 0), ElementsAre("w:f64[3]"));
  for (const VariablePiece& piece : split.pieces)
    EXPECT_EQ(piece.is_read, piece.name == "fixed" || piece.name == "w") << piece.name;
}

}  // namespace
}  // namespace meshwork::split_test
