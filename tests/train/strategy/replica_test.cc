// What the function of Strategy::Run is given, and how its results are used.
#include "meshwork/train/strategy/replica.h"

#include <cmath>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/gradients.h"
#include "meshwork/train/nn/norm_layers.h"
#include "meshwork/train/strategy/strategies.h"
#include "train/strategy/losses.h"

namespace meshwork::replica_test {
namespace {

using ::testing::ElementsAre;
using Values = std::vector<Value>;

class ReplicaTest : public ::testing::Test {
 protected:
  std::vector<double> Output(const std::string& name, const Value& value, Feeds feeds = {}) {
    graph_.Output(name, value);
    absl::StatusOr<Session> session = NewSession(graph_, {.workers = 1});
    if (!session.ok()) {
      ADD_FAILURE() << MessageOf(session.status());
      return {};
    }
    const Tensor result = session->Run(feeds)->Get(name)->Cast(F64);
    return std::vector<double>(result.values<double>().begin(), result.values<double>().end());
  }
  const Strategy strategy_ = MirroredStrategy({.num_devices = 3}).value();
  const StrategyScope scope_{strategy_};
  Graph graph_ = NewGraph();
};

// 4 rows over 3 replicas: parts of 2 rows, of which the last one has none.
TEST_F(ReplicaTest, PartsMayBeShortOrEmpty) {
  const Value x = graph_.Input("x", F64, {4});
  const auto all = strategy_.Run(graph_, {x}, [](ReplicaContext& replica, const Values& part) -> Values {
    EXPECT_EQ(part[0].shape(), (Shape{2}));
    EXPECT_EQ(replica.num_replicas_in_sync(), 3);
    return {replica.replica_id(), replica.num_rows(), Cast(replica.row_mask(), I32), part[0] * 10.0};
  });
  ASSERT_EQ(all.size(), 4u);
  const Feeds feeds = {{"x", Tensor::From<double>({4}, {1, 2, 3, 4})}};
  EXPECT_THAT(Output("id", all[0].stacked(), feeds), ElementsAre(0, 1, 2));
  EXPECT_THAT(Output("rows", all[1].stacked(), feeds), ElementsAre(2, 2, 0));
  EXPECT_THAT(Output("mask", all[2].stacked(), feeds), ElementsAre(1, 1, 1, 1, 0, 0));
  EXPECT_THAT(Output("gathered", strategy_.Gather(all[3]), feeds), ElementsAre(10, 20, 30, 40));
  EXPECT_THAT(Output("sum", strategy_.Reduce(ReplicaReduce::kSum, all[3], 0), feeds), ElementsAre(100));
  EXPECT_THAT(Output("mean", strategy_.Reduce(ReplicaReduce::kMean, all[3], 0), feeds), ElementsAre(25));
  EXPECT_THAT(Output("by_element", strategy_.Reduce(ReplicaReduce::kSum, all[3]), feeds),
              ElementsAre(40, 60));
}

// A batch that came short is fed in full size, with the number of its rows.
TEST_F(ReplicaTest, RowsMayBeFed) {
  const Value x = graph_.Input("x", F64, {6}), rows = graph_.Input("rows", I64, {});
  const auto all = strategy_.Run(
      graph_, {x},
      [](ReplicaContext& replica, const Values& part) -> Values {
        return {replica.num_rows(), replica.AverageLoss(part[0])};
      },
      rows);
  const Feeds feeds = {{"x", Tensor::From<double>({6}, {1, 2, 6, NAN, 7, INFINITY})},
                       {"rows", Tensor::From<int64_t>({}, {3})}};
  EXPECT_THAT(Output("rows_of", all[0].stacked(), feeds), ElementsAre(2, 1, 0));
  EXPECT_THAT(Output("mean", strategy_.Reduce(ReplicaReduce::kSum, all[1]), feeds), ElementsAre(3));
}

TEST_F(ReplicaTest, ReplicasExchange) {
  const Value x = graph_.Input("x", F64, {3, 2});
  const auto all = strategy_.Run(graph_, {x}, [](ReplicaContext& replica, const Values& part) -> Values {
    const Value row = part[0][0];  // [2]
    const Values merged = replica.MergeCall(
        [](const Values& stacked) -> Values { return {ReduceMax(stacked[0], {0})}; }, {row});
    const Value one = Constant(*row.graph(), 1.0, {F64, {}});
    return {replica.AllReduce(ReplicaReduce::kSum, row),
            replica.AllReduce(ReplicaReduce::kMean, row),
            replica.AllGather(row),
            merged[0],
            replica.AllReduce(ReplicaReduce::kSum, one),
            replica.ScaleRegularization(one)};
  });
  const Feeds feeds = {{"x", Tensor::From<double>({3, 2}, {1, 9, 2, 8, 6, 1})}};
  EXPECT_THAT(Output("sum", all[0].stacked(), feeds), ElementsAre(9, 18, 9, 18, 9, 18));
  EXPECT_THAT(Output("mean", all[1].stacked(), feeds), ElementsAre(3, 6, 3, 6, 3, 6));
  EXPECT_THAT(Output("rows", all[2].stacked()[1], feeds), ElementsAre(1, 9, 2, 8, 6, 1));
  EXPECT_THAT(Output("max", all[3].stacked()[2], feeds), ElementsAre(6, 9));
  EXPECT_THAT(Output("count", all[4].stacked(), feeds), ElementsAre(3, 3, 3));
  EXPECT_THAT(Output("scaled", strategy_.Reduce(ReplicaReduce::kSum, all[5]), feeds),
              ElementsAre(::testing::DoubleEq(1)));
}

TEST_F(ReplicaTest, GradientsAreAReplicasOwn) {
  const Value x = graph_.Input("x", F64, {3});
  const Variable w = graph_.Var("w", Filled(2, {}, F64));
  const auto all = strategy_.Run(graph_, {x}, [&](ReplicaContext& replica, const Values& part) -> Values {
    const Value loss = ReduceSum(part[0]) * w * w;
    const Values gradients = replica.Gradients(loss, {w});
    replica.ApplyGradients(Sgd({.learning_rate = 0.5}), {{w, gradients[0]}});
    return gradients;
  });
  graph_.Output("gradients", all[0].stacked());
  Session session = NewSession(graph_).value();
  const Feeds feeds = {{"x", Tensor::From<double>({3}, {1, 2, 3})}};
  const Tensor gradients = session.Run(feeds)->Get("gradients").value();
  EXPECT_THAT(gradients.values<double>(), ElementsAre(4, 8, 12));
  EXPECT_EQ(session.Get("w")->values<double>()[0], 2 - 0.5 * 24);
  const std::vector<Tensor> local = strategy_.LocalResults(gradients);
  ASSERT_EQ(local.size(), 3u);
  EXPECT_EQ(local[2].values<double>()[0], 12);
}

// A replica's loss may use values of other replicas: gradients, summed over replicas, are those of the sum of losses.
TEST_F(ReplicaTest, GradientsGoThroughWhatReplicasExchange) {
  using Context = const ReplicaContext&;
  struct Case {
    const char* name;
    Value (*of_replica)(Context replica, const Value& h);  // h: [2]
    Value (*of_all)(const Value& h);                       // [6]
  };
  const Case cases[] = {
      {"sum",
       [](Context replica, const Value& h) {
         return ReduceSum(h) * replica.AllReduce(ReplicaReduce::kSum, ReduceSum(Square(h)));
       },
       [](const Value& h) { return ReduceSum(h) * ReduceSum(Square(h)); }},
      {"mean",
       [](Context replica, const Value& h) {
         const Value mean = replica.AllReduce(ReplicaReduce::kMean, ReduceMean(h));
         const Value variance = replica.AllReduce(ReplicaReduce::kMean, ReduceMean(Square(h - mean)));
         return ReduceSum((h - mean) * h / (variance + 1.0));
       },
       [](const Value& h) {
         const Value centered = h - ReduceMean(h);
         return ReduceSum(centered * h / (ReduceMean(Square(centered)) + 1.0));
       }},
      {"rows",
       [](Context replica, const Value& h) { return ReduceSum(h) * ReduceMax(replica.AllGather(Square(h))); },
       [](const Value& h) { return ReduceSum(h) * ReduceMax(Square(h)); }},
      {"merged",
       [](Context replica, const Value& h) {
         const auto product = [](const Values& stacked) -> Values { return {ReduceProd(stacked[0], {0})}; };
         return ReduceSum(h) * replica.MergeCall(product, {ReduceSum(h)})[0];
       },
       [](const Value& h) {
         return ReduceSum(h) * ReduceProd(ReduceSum(Reshape(h, {3, 2}), {1}));
       }},
      // All 3 replicas have this loss, so it counts three times.
      {"summed",
       [](Context replica, const Value& h) {
         return replica.AllReduce(ReplicaReduce::kSum, ReduceSum(Square(h)));
       },
       [](const Value& h) { return 3.0 * ReduceSum(Square(h)); }},
      {"sum_of_sums",
       [](Context replica, const Value& h) {
         const Value first = replica.AllReduce(ReplicaReduce::kSum, ReduceSum(h));
         const Value second = replica.AllReduce(ReplicaReduce::kSum, ReduceSum(h * first * first));
         return ReduceSum(h) * second;
       },
       [](const Value& h) {
         const Value first = ReduceSum(h);
         return ReduceSum(h) * ReduceSum(h * first * first);
       }},
  };
  const Value x = graph_.Input("x", F64, {6});
  const Variable w = graph_.Var("w", Filled(0.75, {}, F64));
  for (const Case& c : cases) {
    const auto of = strategy_.Run(graph_, {x}, [&](ReplicaContext& replica, const Values& part) -> Values {
      const Value loss = c.of_replica(replica, Tanh(part[0] * w));
      return {loss, replica.Gradients(loss, {w})[0]};
    });
    const Value whole = c.of_all(Tanh(x * w));
    graph_.Output(fmt::format("{}/losses", c.name), strategy_.Reduce(ReplicaReduce::kSum, of[0]) - whole);
    graph_.Output(fmt::format("{}/gradients", c.name),
                  strategy_.Reduce(ReplicaReduce::kSum, of[1]) - Gradients(whole, {w})[0]);
    graph_.Output(fmt::format("{}/gradient", c.name), Gradients(whole, {w})[0]);
  }
  ASSERT_EQ(MessageOf(graph_.status()), "");
  Session session = NewSession(graph_).value();
  const StepResult result = session.Run({{"x", Tensor::From<double>({6}, {1, -2, 0.5, 3, -1, 2})}}).value();
  for (const Case& c : cases) {
    EXPECT_NEAR(result.scalar(fmt::format("{}/losses", c.name)).value(), 0, 1e-12) << c.name;
    EXPECT_NEAR(result.scalar(fmt::format("{}/gradients", c.name)).value(), 0, 1e-12) << c.name;
    EXPECT_GT(std::abs(result.scalar(fmt::format("{}/gradient", c.name)).value()), 0.01) << c.name;
  }
}

TEST_F(ReplicaTest, VariablesAreAssignedForAll) {
  const Value x = graph_.Input("x", F64, {3});
  const Variable mean = graph_.Var("mean", Filled(0, {}, F64)), sum = graph_.Var("sum", Filled(0, {}, F64));
  strategy_.Run(graph_, {x}, [&](ReplicaContext& replica, const Values& part) -> Values {
    const Value own = ReduceSum(part[0]);
    replica.Assign(mean, own);
    replica.Assign(sum, own, ReplicaReduce::kSum);
    return {};
  });
  Session session = NewSession(graph_).value();
  ASSERT_TRUE(session.Run({{"x", Tensor::From<double>({3}, {1, 2, 6})}}).ok());
  EXPECT_EQ(session.Get("mean")->values<double>()[0], 3);
  EXPECT_EQ(session.Get("sum")->values<double>()[0], 9);
}

TEST_F(ReplicaTest, AverageOfTheWholeBatchIsThatOfItsParts) {
  const Value x = graph_.Input("x", F64, {5, 2});
  const auto all = strategy_.Run(graph_, {x}, [](ReplicaContext& replica, const Values& part) -> Values {
    return {replica.AverageLoss(part[0], 5)};
  });
  std::vector<double> numbers(10);
  for (size_t i = 0; i < 10; ++i) numbers[i] = std::sin(static_cast<double>(i));
  const Feeds feeds = {{"x", Tensor::From<double>({5, 2}, numbers)}};
  double mean = 0;
  for (double number : numbers) mean += number / 10;
  EXPECT_NEAR(Output("parts", strategy_.Reduce(ReplicaReduce::kSum, all[0]), feeds)[0], mean, 1e-15);
  EXPECT_NEAR(Output("whole", ComputeAverageLoss(x, 5), feeds)[0], mean, 1e-15);
  EXPECT_NEAR(Output("regularized", ScaleRegularizationLoss(ReduceSum(x)), feeds)[0], mean * 10 / 3, 1e-14);
}

// ---- Both views: the same rows drop the same elements, and means that leave rows out are those of the whole batch.

// One step with this many replicas; 0: in the view of the whole batch. Returns what dropout leaves of ones, and the
// gradient summed over the replicas.
std::vector<double> Kept(int64_t replicas, int64_t rows) {
  const Strategy strategy = MirroredStrategy({.num_devices = std::max<int64_t>(replicas, 1)}).value();
  const StrategyScope scope = strategy.Scope();
  Graph g = NewGraph();
  const Value x = g.Input("x", F64, {rows, 20});
  const Variable w = g.Var("w", Filled(1, {20}, F64));
  const Dropout drop(g, "drop", 0.5);
  const auto noisy = [&](const Value& part) {
    Graph& body = *part.graph();
    const Value of_row = RandomUniform(body, {F64, {part.shape()[0]}}, 3, 1, 0, 1);
    const Value whole_rows = StatelessDropout(part * w, 0.5, 3, 4, {}, 1),
                whole_columns = StatelessDropout(part * w, 0.5, 3, 5, {}, 0);
    return drop(part * w) * ExpandDims(of_row, {1}) + whole_rows + 3.0 * whole_columns +
           RandomNormal(body, {F64, part.shape()}, 3, 2, 0, 1);
  };
  if (replicas == 0) {
    const Value all = noisy(x);
    g.Output("noisy", all);
    g.Output("gradient", Gradients(ReduceMean(all), {w})[0]);
  } else {
    const auto parts = strategy.Run(g, {x}, [&](ReplicaContext& replica, const Values& part) -> Values {
      const Value own = noisy(part[0]);
      return {own, replica.Gradients(replica.AverageLoss(own), {w})[0]};
    });
    g.Output("noisy", strategy.Gather(parts[0]));
    g.Output("gradient", strategy.Reduce(ReplicaReduce::kSum, parts[1]));
  }
  Session session = NewSession(g).value();
  std::vector<double> numbers;
  for (int step = 0; step < 2; ++step) {
    const StepResult result = session.Run({{"x", Tensor::Full({F64, {rows, 20}}, 1)}}).value();
    for (const char* name : {"noisy", "gradient"}) {
      const Tensor tensor = result.Get(name).value();
      numbers.insert(numbers.end(), tensor.values<double>().begin(), tensor.values<double>().end());
    }
  }
  return numbers;
}

TEST(ReplicaPlacesTest, ReplicasHaveTheRandomNumbersOfTheirRows) {
  for (int64_t rows : {8, 10, 3}) {
    const std::vector<double> want = Kept(0, rows);
    for (int64_t replicas : {1, 2, 3, 4, 8}) {
      const std::vector<double> got = Kept(replicas, rows);
      ASSERT_EQ(got.size(), want.size());
      for (size_t i = 0; i < want.size(); ++i)
        ASSERT_NEAR(got[i], want[i], 1e-13) << replicas << " replicas, " << rows << " rows, " << i;
    }
  }
}

// Values without rows get random numbers of each replica's own.
TEST_F(ReplicaTest, ReplicasDrawNumbersOfTheirOwn) {
  const Value x = graph_.Input("x", F64, {3});
  const auto all = strategy_.Run(graph_, {x}, [](ReplicaContext&, const Values& part) -> Values {
    return {RandomUniform(*part[0].graph(), {F64, {}}, 1, 2, 0, 1)};
  });
  const std::vector<double> drawn = Output("drawn", all[0].stacked(), {{"x", Tensor::Full({F64, {3}}, 1)}});
  ASSERT_EQ(drawn.size(), 3u);
  EXPECT_NE(drawn[0], drawn[1]);
  EXPECT_NE(drawn[0], drawn[2]);
  EXPECT_NE(drawn[1], drawn[2]);
}

// Loss and gradient with ignored labels, or with weights, for this many replicas; 0: in the view of the whole batch.
std::vector<double> MeanThatLeavesOut(int64_t replicas, int64_t rows, bool is_weighted) {
  const Strategy strategy = MirroredStrategy({.num_devices = std::max<int64_t>(replicas, 1)}).value();
  const StrategyScope scope = strategy.Scope();
  Graph g = NewGraph();
  const Value x = g.Input("x", F64, {rows, 6}), y = g.Input("y", I32, {rows}),
              weights = g.Input("weights", F64, {rows});
  const Variable w = g.Var("w", GlorotUniform({6, kClasses}, F64));
  const auto loss_of = [&](const Value& features, const Value& labels, const Value& counts) {
    return SparseSoftmaxCrossEntropy(MatMul(features, w), labels,
                                     {.reduction = is_weighted ? Reduction::kWeightedMean : Reduction::kMean,
                                      .weights = counts,
                                      .ignore_label = -1});
  };
  if (replicas == 0) {
    const Value loss = loss_of(x, y, is_weighted ? weights : Value());
    g.Output("loss", loss);
    g.Output("gradient", Gradients(loss, {w})[0]);
  } else {
    const auto parts =
        strategy.Run(g, {x, y, weights}, [&](ReplicaContext& replica, const Values& part) -> Values {
          const Value mask = replica.row_mask();
          const Value loss = loss_of(part[0], part[1], is_weighted ? Select(mask, part[2], 0.0) : mask);
          return {loss, replica.Gradients(replica.ScaleRegularization(loss), {w})[0]};
        });
    g.Output("loss", strategy.Reduce(ReplicaReduce::kMean, parts[0]));
    g.Output("gradient", strategy.Reduce(ReplicaReduce::kSum, parts[1]));
  }
  Feeds feeds = DrawBatch(1, rows);
  const std::vector<int32_t> labels = {-1, 2, -1, -1, 0, 1, -1, 1, -1, 2};
  const std::vector<double> numbers = {3, 1, 2, 2, 0, 5, 1, 0.5, 1, 7};
  feeds.at("y") = Tensor::From<int32_t>({rows}, {labels.begin(), labels.begin() + rows});
  feeds.insert({"weights", Tensor::From<double>({rows}, {numbers.begin(), numbers.begin() + rows})});
  Session session = NewSession(g).value();
  const StepResult result = session.Run(feeds).value();
  const Tensor gradient = result.Get("gradient").value();
  std::vector<double> all(gradient.values<double>().begin(), gradient.values<double>().end());
  all.push_back(result.scalar("loss").value());
  return all;
}

TEST(ReplicaPlacesTest, MeansThatLeaveRowsOutAreThoseOfTheBatch) {
  for (bool is_weighted : {false, true}) {
    for (int64_t rows : {8, 10, 3}) {
      const std::vector<double> want = MeanThatLeavesOut(0, rows, is_weighted);
      for (int64_t replicas : {1, 2, 3, 4, 8}) {
        const std::vector<double> got = MeanThatLeavesOut(replicas, rows, is_weighted);
        for (size_t i = 0; i < want.size(); ++i)
          EXPECT_NEAR(got[i], want[i], 1e-12) << replicas << " replicas, " << rows << " rows, " << i;
      }
    }
  }
}

}  // namespace
}  // namespace meshwork::replica_test
