// Mistakes in the split of a training between workers and parameter servers, and mistakes that servers refuse.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "errors/errors.h"
#include "gtest/gtest.h"
#include "meshwork/ops/control/control_flow.h"
#include "meshwork/ops/ops.h"
#include "meshwork/train/nn/initializers.h"
#include "meshwork/train/nn/metrics.h"
#include "meshwork/train/optim/optimizers.h"
#include "meshwork/train/parameter_server/metric_totals.h"
#include "meshwork/train/parameter_server/partitioners.h"
#include "meshwork/train/parameter_server/served_session.h"
#include "meshwork/train/parameter_server/shard_store.h"
#include "meshwork/train/parameter_server/split.h"
#include "support/temp_dir.h"

namespace meshwork::served_training_test {
namespace {

using ServedTrainingErrors = TempDirTest;

// Of w: f32[4,2].
template <typename AddUpdate>
Graph Trained(const AddUpdate& update) {
  Graph g(Mesh::Parse("batch=1").value());
  const Value x = g.Input("x", F32, {3, 4});
  const Variable w = g.Var("w", Zeros({4, 2}));
  const Value loss = ReduceMean(Square(MatMul(x, w)));
  g.Output("loss", loss);
  update(g, w, loss);
  return g;
}

Graph BySgd() {
  return Trained([](Graph&, const Variable&, const Value& loss) { Sgd({}).Minimize(loss); });
}

// m, which no output reads, is another variable, with `rows` rows.
Graph WithState(int64_t rows, const std::function<Value(const Value& w, const Value& m)>& next) {
  return Trained([&](Graph& g, const Variable& w, const Value& loss) {
    const Variable m = g.Var("m", Zeros({rows, 2}), {}, {.trainable = false});
    g.Update(m, m * 0.5);
    g.Update(w, next(w, m) - VariableGradients(loss, {w})[0].gradient);
  });
}

TEST_F(ServedTrainingErrors, Splits) {
  const auto half = [](std::string_view name, DType, const Shape&) -> int64_t { return name == "m" ? 2 : 1; };
  Graph nothing(Mesh::Parse("batch=1").value());
  nothing.Output("x", nothing.Input("x", F32, {2}));
  Graph wrong(Mesh::Parse("batch=1").value());
  wrong.Output("sum", wrong.Input("x", F32, {2}) + wrong.Input("y", F32, {3}));
  const Graph lamb = Trained([](Graph&, const Variable&, const Value& loss) { Lamb({}).Minimize(loss); });
  const Graph sums = WithState(4, [](const Value& w, const Value& m) { return w * ReduceSum(m); });
  const Graph other = WithState(6, [](const Value& w, const Value& m) { return w * ReduceSum(m); });
  const Graph looped = WithState(4, [](const Value& w, const Value& m) {
    return w + If(
                   ReduceSum(w) > 0.0, [&](Graph&) { return std::vector<Value>{m}; },
                   [&](Graph&) { return std::vector<Value>{m * 2.0}; })[0];
  });
  ExpectErrors("served_split",
               {
                   MISTAKE(PlacePieces({8, 8}, 0)),
                   MISTAKE(PlacePieces({8, 8}, 4)),
                   MISTAKE(SplitTraining(BySgd(), {.num_servers = 2})),
                   MISTAKE(SplitTraining(BySgd(), {.partitioner = FixedShardsPartitioner(0)})),
                   MISTAKE(SplitTraining(BySgd(), {.partitioner = MinSizePartitioner({.max_shards = 0})})),
                   MISTAKE(SplitTraining(BySgd(), {.partitioner = MaxSizePartitioner({})})),
                   MISTAKE(SplitTraining(BySgd(), {.partitioner = [](auto, auto, auto) { return 5; }})),
                   MISTAKE(SplitTraining(nothing)),
                   MISTAKE(SplitTraining(wrong)),
                   MISTAKE(SplitTraining(lamb, {.partitioner = FixedShardsPartitioner(2)})),
                   MISTAKE(SplitTraining(sums, {.partitioner = FixedShardsPartitioner(2)})),
                   MISTAKE(SplitTraining(other, {.partitioner = half})),
                   MISTAKE(SplitTraining(looped)),
               });
}

PushRequest PushOf(std::string pusher, int64_t sequence, int64_t version,
                   std::vector<PieceGradient> gradients) {
  return {.pusher = std::move(pusher),
          .sequence = sequence,
          .version = version,
          .gradients = std::move(gradients)};
}

// Gives a number for everything.
class OtherStore : public ParameterStore {
 public:
  absl::StatusOr<Pulled> Pull(const PullRequest& request) override {
    return Pulled{.values = std::vector<Tensor>(request.pieces.size(), Tensor::Zeros({F32, {1}}))};
  }
  absl::StatusOr<Pushed> Push(const PushRequest&) override { return Pushed(); }
  absl::StatusOr<SequenceSet> TakenFrom(const std::string&) override { return SequenceSet(); }
  absl::StatusOr<int64_t> Save() override { return 0; }
  void Stop() override {}
};

TEST_F(ServedTrainingErrors, Metrics) {
  const Graph graph = Trained([](Graph& g, const Variable&, const Value& loss) {
    g.Output("mean", MeanMetric(g, "mean").Update(loss));
    Sgd({}).Minimize(loss);
  });
  MetricTotals totals(graph);
  const auto add = [&](const Tensor& total) {
    return totals.Add(
        StepResult({{totals.names()[0], total}, {totals.names()[1], Tensor::Zeros({F64, {}})}}));
  };
  ExpectErrors("served_metrics", {
                                     MISTAKE(totals.Add(StepResult({}))),
                                     MISTAKE(add(Tensor::Zeros({F32, {2}}))),
                                 });
}

TEST_F(ServedTrainingErrors, Stores) {
  const TrainingSplit split = SplitTraining(BySgd(), {.partitioner = FixedShardsPartitioner(2)}).value();
  const TrainingSplit two =
      SplitTraining(BySgd(), {.num_servers = 2, .partitioner = FixedShardsPartitioner(2)}).value();
  const TrainingSplit counted = SplitTraining(Trained([](Graph& g, const Variable& w, const Value& loss) {
                                  const Variable seen = g.Var("seen", Zeros({}, I64));
                                  g.Update(seen, seen + ReduceSum(Cast(w, I64)));
                                  Sgd({}).Minimize(loss);
                                })).value();
  const auto make = [](const TrainingSplit& of, ShardStoreOptions options) {
    options.session.workers = 1;
    return ShardStore::Create(of, options);
  };
  const std::unique_ptr<ShardStore> store =
      make(split, {.max_staleness = 0, .folder = Path("saved")}).value();
  const Tensor rows = Tensor::Zeros({F32, {2, 2}});
  const PieceGradient first{{"w/part_0"}, rows}, second{{"w/part_1"}, rows};
  const auto at = [](std::vector<int64_t> ids) {
    return PullRequest{{{"w/part_0", Tensor::From<int64_t>({std::ssize(ids)}, ids)}}};
  };
  ASSERT_TRUE(store->Push(PushOf("a", 1, 0, {first, second})).ok());
  ASSERT_TRUE(store->Save().ok());
  const std::unique_ptr<ShardStore> gathers = make(split, {.gather = 1}).value();
  ASSERT_TRUE(gathers->Push(PushOf("a", 1, 0, {first, second})).ok());
  const std::unique_ptr<ShardStore> stopped = make(split, {}).value();
  stopped->Stop();
  const std::shared_ptr<ParameterStore> shared = make(split, {}).value();
  Graph lookups(Mesh::Parse("batch=1").value());
  const Value loss =
      ReduceSum(Gather(lookups.Var("table", Zeros({9, 2})), lookups.Input("ids", I32, {3}), 0));
  lookups.Output("loss", loss);
  Sgd({}).Minimize(loss);
  const std::unique_ptr<ShardStore> tables = make(SplitTraining(lookups).value(), {}).value();
  const Tensor two_rows = Tensor::From<int64_t>({2}, {7, 4});
  ExpectErrors(
      "served_stores",
      {
          MISTAKE(make(split, {.server = 1})),
          MISTAKE(make(split, {.max_staleness = -1})),
          MISTAKE(make(split, {.gather = -1})),
          MISTAKE(make(split, {.initial = {{"v", rows}}})),
          MISTAKE(make(split, {.initial = {{"w", rows}}})),
          MISTAKE(make(split, {.keep = 0})),
          MISTAKE(make(counted, {.gather = 2})),
          MISTAKE(make(two, {.folder = Path("saved")})),
          MISTAKE(store->Pull({{{"w/part_2"}}})),
          MISTAKE(store->Pull({{{"w/part_0"}, {"w/part_0"}}})),
          MISTAKE(store->Pull(at({0, 2}))),
          MISTAKE(store->Pull(at({1, 1}))),
          MISTAKE(store->Pull({{{"w/part_0", Tensor::From<float>({1}, {0})}}})),
          MISTAKE(store->Push(PushOf("", 1, 0, {first, second}))),
          MISTAKE(store->Push(PushOf("a", 0, 0, {first, second}))),
          MISTAKE(store->Push(PushOf("a", 2, 1, {first, {{"w"}, rows}}))),
          MISTAKE(
              store->Push(PushOf("a", 2, 1, {first, {{"w/part_1", Tensor::From<int64_t>({1}, {0})}, rows}}))),
          MISTAKE(store->Push(PushOf("a", 2, 1, {first, {{"w/part_1"}, Tensor::Zeros({F32, {1, 2}})}}))),
          MISTAKE(store->Push(PushOf("a", 2, 1, {first, {{"w/part_1"}, rows.Rows(1, 3)}}))),
          MISTAKE(store->Push(PushOf("a", 2, 1, {first, first}))),
          MISTAKE(tables->Push(PushOf("a", 1, 0, {{{"table"}, Tensor::Zeros({F32, {9, 2}})}}))),
          MISTAKE(tables->Push(PushOf("a", 1, 0, {{{"table", two_rows}, Tensor::Zeros({F32, {9, 2}})}}))),
          MISTAKE(store->Push(PushOf("a", 2, 1, {first}))),
          MISTAKE(store->Push(PushOf("a", 2, 0, {first, second}))),
          MISTAKE(store->Push(PushOf("a", 2, 7, {first, second}))),
          MISTAKE(gathers->Push(PushOf("b", 1, 0, {first, second}))),
          MISTAKE(gathers->Save()),
          MISTAKE(stopped->Push(PushOf("a", 1, 0, {first, second}))),
          MISTAKE(ServedSession::Create(split, {})),
          MISTAKE(ServedSession::Create(split, {nullptr})),
          MISTAKE(ServedSession::Create(split, {shared}, {.retries = -1})),
          MISTAKE(ServedSession::Create(split, {shared})->Get("v")),
          MISTAKE(ServedSession::Create(split, {shared})->Run({})),
          MISTAKE(ServedSession::Create(split, {std::make_shared<OtherStore>()})->Get("w")),
      },
      {{Path(""), "DIR/"}});
}

}  // namespace
}  // namespace meshwork::served_training_test
