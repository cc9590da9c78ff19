// What strategies, and the view of a replica, refuse.
#include <string>
#include <vector>

#include "errors/errors.h"
#include "gtest/gtest.h"
#include "meshwork/ops/ops.h"
#include "meshwork/train/nn/initializers.h"
#include "meshwork/train/strategy/distribute.h"
#include "meshwork/train/strategy/replica.h"
#include "meshwork/train/strategy/strategies.h"
#include "support/temp_dir.h"

namespace meshwork::strategy_test {
namespace {

using Values = std::vector<Value>;

using StrategyErrors = TempDirTest;

TEST_F(StrategyErrors, Strategies) {
  File("cluster.json", R"({"cluster": {"worker": ["127.0.0.1:1"], "ps": ["127.0.0.1:2"]},
                           "task": {"type": "worker", "index": 0}})");
  const JoinOptions with_server{.cluster = Path("cluster.json")};
  const Mesh mesh = Mesh::Parse("batch=2,model=2").value();
  const Graph other{mesh};
  const Strategy two = MirroredStrategy({.num_devices = 2}).value();
  ExpectErrors(
      "strategies",
      {
          MISTAKE(OneDeviceStrategy("gpu:0")),
          MISTAKE(MirroredStrategy({.num_devices = -1})),
          MISTAKE(CentralStorageStrategy({.num_devices = -2})),
          MISTAKE(MultiWorkerMirroredStrategy({.devices_per_worker = 0})),
          MISTAKE(MultiWorkerMirroredStrategy({.join = with_server})),
          MISTAKE(FullyShardedStrategy({.num_devices = 8, .group = 3})),
          MISTAKE(FullyShardedStrategy({.num_devices = 8, .group = -1})),
          MISTAKE(MeshStrategy("batch=2,model")),
          MISTAKE(MeshStrategy("batch=2", {.variables = {"model"}})),
          MISTAKE(Strategy::Create({.name = "Mine", .mesh = mesh, .replica_axes = {"batch", "batch"}})),
          MISTAKE(Strategy::Create({.name = "Mine", .mesh = mesh, .replica_axes = {"batsh"}})),
          MISTAKE(Strategy::Create({.name = "Mine", .mesh = mesh, .layouts = {.batch = {"data"}}})),
          MISTAKE(two.NewSession(other)),
      },
      {{Path(""), "DIR/"}});
}

// On a graph of MirroredStrategy with 2 replicas.
#define REPLICA_MISTAKE(...)                                                                                \
  Mistake(#__VA_ARGS__, [&]() -> Refusal {                                                                  \
    const Strategy strategy = MirroredStrategy({.num_devices = 2}).value();                                 \
    const StrategyScope scope(strategy);                                                                    \
    Graph g = NewGraph();                                                                                   \
    const Value x = g.Input("x", F32, {8, 3}), rows = g.Input("other", F32, {4, 3});                        \
    const Variable w = g.Var("w", Zeros({3}));                                                              \
    const auto run = [&](const Values& inputs, const ReplicaFunction& function) {                           \
      return strategy.Run(g, inputs, function);                                                             \
    };                                                                                                      \
    const auto same = [](ReplicaContext&, const Values& part) { return part; };                             \
    const auto number = [](ReplicaContext&, const Values& part) -> Values { return {ReduceSum(part[0])}; }; \
    static_cast<void>(run), static_cast<void>(same), static_cast<void>(number), static_cast<void>(rows);    \
    __VA_ARGS__;                                                                                            \
    return g.status();                                                                                      \
  }())

TEST_F(StrategyErrors, Replicas) {
  Graph elsewhere{Mesh()};
  const Variable foreign = elsewhere.Var("v", Zeros({3}));
  const auto within = [](ReplicaContext&, const Values& part) {
    const Strategy strategy = MirroredStrategy({.num_devices = 2}).value();
    strategy.Run(*part[0].graph(), part, [](ReplicaContext&, const Values& again) { return again; });
    return part;
  };
  const auto mean_of_mean = [](ReplicaContext& replica, const Values& part) -> Values {
    return {replica.AverageLoss(ReduceMean(part[0]))};
  };
  const auto gradients = [&](ReplicaContext& replica, const Values& part) {
    return replica.Gradients(ReduceSum(part[0]), {foreign});
  };
  const auto minimize = [](ReplicaContext& replica, const Values& part) -> Values {
    replica.Minimize(Sgd({}), ReduceSum(part[0]));
    return part;
  };
  ExpectErrors("strategy_replicas",
               {
                   REPLICA_MISTAKE(run({x, rows}, same)),
                   REPLICA_MISTAKE(run({x}, within)),
                   REPLICA_MISTAKE(MirroredStrategy({.num_devices = 4})->Run(g, {x}, same)),
                   REPLICA_MISTAKE(run({x}, mean_of_mean)),
                   REPLICA_MISTAKE(run({x}, gradients)),
                   REPLICA_MISTAKE(run({x}, minimize)),
                   REPLICA_MISTAKE(strategy.Reduce(ReplicaReduce::kSum, run({x}, same)[0], 2)),
                   REPLICA_MISTAKE(strategy.Gather(run({x}, number)[0])),
                   REPLICA_MISTAKE(strategy.Gather(run({x}, same)[0], 2)),
                   REPLICA_MISTAKE(ComputeAverageLoss(ReduceMean(x), 8)),
                   REPLICA_MISTAKE(ComputeAverageLoss(x, 0)),
               });
}

// Rows of padding: 10 rows on 4 replicas, or a batch whose number of rows is fed.
TEST_F(StrategyErrors, FilledUpParts) {
  const auto run = [](int64_t batch, bool gives_rows,
                      const std::function<Value(ReplicaContext&, const Value&)>& of) {
    const Strategy strategy = MirroredStrategy({.num_devices = 4}).value();
    const StrategyScope scope = strategy.Scope();
    Graph g = NewGraph();
    const Value x = g.Input("x", F32, {batch, 3}), rows = gives_rows ? g.Input("rows", I64, {}) : Value();
    const Variable w = g.Var("w", Zeros({3, 3}));
    strategy.Run(g, {x},
                 [&](ReplicaContext& replica, const Values& part) -> Values {
                   return {of(replica, MatMul(part[0], w))};
                 },
                 rows, {"model.cc", 7});
    return g.status();
  };
  const auto mean = [](ReplicaContext&, const Value& x) {
    return ReduceMean(Operand(x, CallSite("model.cc", 4)));
  };
  const auto gathered = [](ReplicaContext& replica, const Value& x) {
    const Value scores = MatMul(x, replica.AllGather(x), false, true);
    return replica.AverageLoss(ReduceMax(Operand(scores, CallSite("model.cc", 4)), {1}));
  };
  const auto normalized = [](ReplicaContext&, const Value& x) {
    const Value one = Constant(*x.graph(), 1, {F32, {1}});
    return BatchNorm(Operand(Reshape(x, {-1, 1}), CallSite("model.cc", 4)), one, one).y;
  };
  ExpectErrors("strategy_padding",
               {
                   MISTAKE(run(10, false, mean)),
                   MISTAKE(run(12, true, mean)),
                   MISTAKE(run(10, false, gathered)),
                   MISTAKE(run(10, false, normalized)),
                   MISTAKE(run(10, false,
                               [](ReplicaContext&, const Value& x) {
                                 return MeanSquaredError(Operand(x, CallSite("model.cc", 4)), x * 0.5);
                               })),
                   MISTAKE(run(10, false,
                               [](ReplicaContext& replica, const Value& x) {
                                 return replica.AllReduce(ReplicaReduce::kSum,
                                                          Exp(Operand(x, CallSite("model.cc", 4))));
                               })),
                   MISTAKE(run(10, false,
                               [](ReplicaContext&, const Value& x) {
                                 return x[{0, {"model.cc", 4}}];
                               })),
               });
  // No mistakes: values split by rows, uses of the row mask, and sums to which padding adds zeros.
  const auto of_zeros = [](ReplicaContext& replica, const Value& x) {
    return replica.AllReduce(ReplicaReduce::kSum, ReduceSum(x * 2.0 * x));
  };
  const auto masked = [](ReplicaContext& replica, const Value& x) {
    return MeanSquaredError(x, x + 1.0, {.weights = ExpandDims(replica.row_mask(), {1})});
  };
  const auto of_rows = [](ReplicaContext&, const Value& x) { return Exp(x + ReduceMax(x, {1}, true)); };
  EXPECT_TRUE(run(12, false, mean).ok());
  for (bool gives_rows : {false, true}) {
    EXPECT_TRUE(run(10, gives_rows, of_zeros).ok()) << run(10, gives_rows, of_zeros);
    EXPECT_TRUE(run(10, gives_rows, masked).ok()) << run(10, gives_rows, masked);
    EXPECT_TRUE(run(10, gives_rows, of_rows).ok()) << run(10, gives_rows, of_rows);
  }
}

TEST_F(StrategyErrors, Data) {
  const Strategy strategy = MirroredStrategy({.num_devices = 2}).value();
  const Pipeline numbers = Pipeline::Range(5);
  const Example three{{"x", Tensor::Zeros({F32, {3}})}};
  const auto of_three = [&](int64_t batch_size) {
    return DistributeDataset(strategy, Pipeline::FromFunction(1, [&](int64_t) { return three; }),
                             {.batch_size = batch_size})
        ->Begin()
        .Next();
  };
  const InputContext context{.num_input_pipelines = 2, .num_replicas_in_sync = 8};
  const auto second_share = [&](const Pipeline& shares) {
    PipelineIterator walk = WholeBatchesOf(shares, context).Begin();
    EXPECT_TRUE(walk.Next().ok());
    return walk.Next();
  };
  ExpectErrors("strategy_data",
               {
                   MISTAKE(DistributeDataset(strategy, numbers.Batch(0))),
                   MISTAKE(DistributeDataset(strategy, numbers, {.policy = AutoShard::kFile})),
                   MISTAKE(DistributeDataset(strategy, numbers, {.batch_size = -1})),
                   MISTAKE(DistributeDataset(strategy, numbers, {.rows = "rows"})),
                   MISTAKE(DistributeDataset(strategy, numbers, {.batch_size = 4})->Begin().Next()),
                   MISTAKE(of_three(2)),
                   MISTAKE(second_share(numbers.Batch(3))),
                   MISTAKE(context.PerReplicaBatchSize(60)),
                   MISTAKE(context.PerPipelineBatchSize(7)),
                   MISTAKE(DistributeValuesFromFunction(strategy,
                                                        [](int64_t r) {
                                                          return Tensor::Zeros({F32, {r}});
                                                        })),
                   MISTAKE(DistributeDatasetsFromFunction(
                       strategy, [&](const InputContext&) { return numbers.Batch(-2); })),
               });
}

}  // namespace
}  // namespace meshwork::strategy_test
