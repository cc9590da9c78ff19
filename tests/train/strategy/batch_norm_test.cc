// Batch norms in the view of a replica: the statistics, gradients and running values of the same model in the view of
// the whole batch, whatever part of it a replica has.
#include <optional>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/random.h"
#include "meshwork/base/status.h"
#include "meshwork/ops/ops.h"
#include "meshwork/train/nn/layers.h"
#include "meshwork/train/nn/norm_layers.h"
#include "meshwork/train/strategy/replica.h"
#include "meshwork/train/strategy/strategies.h"

namespace meshwork::batch_norm_test {
namespace {

using ::testing::HasSubstr;
using Values = std::vector<Value>;

constexpr int64_t kSpots = 2, kInputs = 3, kUnits = 4;

Tensor Drawn(int64_t rows) {
  Random random(/*seed=*/5);
  std::vector<double> numbers;
  for (int64_t i = 0; i < rows * kSpots * kInputs; ++i) numbers.push_back(random.Uniform(-1, 3));
  return Tensor::From<double>({rows, kSpots, kInputs}, numbers);
}

struct Model {
  explicit Model(Graph& g, bool unbiased)
      : dense(g, "dense", kInputs, kUnits, {.dtype = F64}),
        norm(g, "norm", kUnits, {.momentum = 0.75, .unbiased = unbiased, .dtype = F64}),
        again(g, "again", {.dtype = F64}),
        out(g, "out", kUnits, 1, {.dtype = F64}) {}
  // [b]: the loss of each example.
  Value LossOfEach(const Value& x) const {
    const Value h = norm(dense(x));
    return ReduceMean(Square(out(norm(again(h * 2.0)) * h) - 1.0), {1, 2});  // one layer is called twice
  }
  Dense dense;
  BatchNormalization norm, again;
  Dense out;
};

// Losses of some steps, then all variables, then what it says outside of training.
std::vector<double> Trained(Graph& g, const Feeds& feeds) {
  std::vector<double> numbers;
  absl::StatusOr<Session> session = Session::Create(g, {.workers = 1});
  if (!session.ok()) {
    ADD_FAILURE() << MessageOf(session.status());
    return numbers;
  }
  for (int step = 0; step < 3; ++step) numbers.push_back(session->Run(feeds)->scalar("loss").value());
  for (const Argument& argument : g.arguments()) {
    if (!argument.is_variable) continue;
    const Tensor value = session->Get(g.value(argument.value).name)->Cast(F64);
    numbers.insert(numbers.end(), value.values<double>().begin(), value.values<double>().end());
  }
  numbers.push_back(session->Evaluate(feeds)->scalar("loss").value());
  return numbers;
}

std::vector<double> TrainedWhole(int64_t rows, bool unbiased) {
  Graph g(Mesh::Parse("batch=1").value());
  const Value x = g.Input("x", F64, {rows, kSpots, kInputs});
  const Value loss = ReduceMean(Model(g, unbiased).LossOfEach(x));
  Sgd({.learning_rate = 0.1}).Minimize(loss);
  g.Output("loss", loss);
  return Trained(g, {{"x", Drawn(rows)}});
}

// `fed`: only this many rows of the batch are real.
std::vector<double> TrainedByReplicas(int replicas, int64_t batch, std::optional<int64_t> fed,
                                      bool unbiased) {
  const Strategy strategy = MirroredStrategy({.num_devices = replicas}).value();
  Graph g = strategy.NewGraph();
  const Value x = g.Input("x", F64, {batch, kSpots, kInputs});
  const Value rows = fed.has_value() ? g.Input("rows", I64, {}) : Value();
  const Model model(g, unbiased);
  const auto losses = strategy.Run(
      g, {x},
      [&](ReplicaContext& replica, const Values& part) -> Values {
        const Value loss = replica.AverageLoss(model.LossOfEach(part[0]));
        replica.Minimize(Sgd({.learning_rate = 0.1}), loss);
        return {loss};
      },
      rows);
  if (!g.status().ok()) {
    ADD_FAILURE() << MessageOf(g.status());
    return {};
  }
  g.Output("loss", strategy.Reduce(ReplicaReduce::kSum, losses[0]));
  Feeds feeds = {{"x", Drawn(batch)}};
  if (fed.has_value()) feeds.emplace("rows", Tensor::From<int64_t>({}, {*fed}));
  return Trained(g, feeds);
}

void ExpectNear(const std::vector<double>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  ASSERT_GT(want.size(), 20u);
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-11) << i;
}

TEST(ReplicaBatchNormTest, TrainsAsInTheViewOfTheWholeBatch) {
  for (const bool unbiased : {false, true}) {
    for (const int64_t batch : {12, 7, 2}) {
      const std::vector<double> want = TrainedWhole(batch, unbiased);
      for (const int replicas : {1, 2, 3, 4}) {
        SCOPED_TRACE(fmt::format("{} rows, {} replicas", batch, replicas));
        ExpectNear(TrainedByReplicas(replicas, batch, std::nullopt, unbiased), want);
      }
    }
  }
}

// A batch that is filled up: by rows that are not real, whatever they hold.
TEST(ReplicaBatchNormTest, LeavesOutRowsThatAreNotReal) {
  for (const int64_t rows : {8, 5, 1}) {
    const std::vector<double> want = TrainedWhole(rows, true);
    for (const int replicas : {1, 2, 3}) {
      SCOPED_TRACE(fmt::format("{} rows, {} replicas", rows, replicas));
      ExpectNear(TrainedByReplicas(replicas, 8, rows, true), want);
    }
  }
}

// The normalized values still contain such rows: means over them are refused, as means over the input are.
TEST(ReplicaBatchNormTest, RowsOfWhatIsNormalizedAreStillNotReal) {
  const Strategy strategy = MirroredStrategy({.num_devices = 3}).value();
  for (const bool takes_mean : {false, true}) {
    Graph g = strategy.NewGraph();
    const Value x = g.Input("x", F64, {7, kUnits});
    const BatchNormalization norm(g, "norm", kUnits, {.dtype = F64});
    strategy.Run(g, {x}, [&](ReplicaContext& replica, const Values& part) -> Values {
      const Value y = norm(part[0]);
      return {takes_mean ? ReduceMean(y) : replica.AverageLoss(y)};
    });
    EXPECT_EQ(g.status().ok(), !takes_mean) << g.status();
    EXPECT_THAT(MessageOf(g.status()), takes_mean ? HasSubstr("reduce_mean") : HasSubstr(""));
  }
}

}  // namespace
}  // namespace meshwork::batch_norm_test
