// A small training, written once, under any strategy: in the view of the whole batch, and in that of a replica.
#pragma once

#include <cstdint>
#include <vector>

#include "meshwork/base/random.h"
#include "meshwork/ops/ops.h"
#include "meshwork/train/nn/layers.h"
#include "meshwork/train/optim/optimizers.h"
#include "meshwork/train/strategy/replica.h"
#include "meshwork/train/strategy/strategy.h"

namespace meshwork {

constexpr int64_t kBatch = 10, kInputs = 6, kClasses = 3;

inline Feeds DrawBatch(int64_t step, int64_t rows = kBatch) {
  Random random(/*seed=*/5, static_cast<uint64_t>(step));
  std::vector<double> x(static_cast<size_t>(rows * kInputs));
  std::vector<int32_t> y(static_cast<size_t>(rows));
  for (double& value : x) value = random.Uniform(-1, 1);
  for (size_t i = 0; i < y.size(); ++i)  // something that can be learned
    y[i] = x[i * kInputs] < 0 ? 0 : x[i * kInputs + 1] < 0 ? 1 : 2;
  return {{"x", Tensor::From<double>({rows, kInputs}, x)}, {"y", Tensor::From<int32_t>({rows}, y)}};
}

struct SmallModel {
  explicit SmallModel(Graph& g)
      : in(g, "in", kInputs, 16, {.dtype = F64}), out(g, "out", 16, kClasses, {.dtype = F64}) {}
  Value LossOfEach(const Value& x, const Value& y) const {
    return SparseSoftmaxCrossEntropy(out(Tanh(in(x))), y, {.reduction = Reduction::kNone});
  }
  Dense in, out;
};

// Builds the model in the view of the whole batch. The strategy of the current scope applies.
inline void BuildWhole(Graph& g, const Optimizer& optimizer) {
  const Value x = g.Input("x", F64, {kBatch, kInputs}), y = g.Input("y", I32, {kBatch});
  const SmallModel model(g);
  const Value loss = ReduceMean(model.LossOfEach(x, y));
  optimizer.Minimize(loss);
  g.Output("loss", loss);
}

inline void BuildForReplicas(Graph& g, const Optimizer& optimizer) {
  const Strategy& strategy = GetStrategy();
  const Value x = g.Input("x", F64, {kBatch, kInputs}), y = g.Input("y", I32, {kBatch});
  const SmallModel model(g);
  const std::vector<PerReplica> losses =
      strategy.Run(g, {x, y}, [&](ReplicaContext& replica, const std::vector<Value>& part) {
        const Value loss = replica.AverageLoss(model.LossOfEach(part[0], part[1]), kBatch);
        replica.Minimize(optimizer, loss);
        return std::vector<Value>{loss};
      });
  if (!losses.empty()) g.Output("loss", strategy.Reduce(ReplicaReduce::kSum, losses[0]));
}

// The losses of 40 steps. `optimizer`: of f64 weights.
inline std::vector<double> Losses(const Strategy& strategy, void (*build)(Graph&, const Optimizer&),
                                  const Optimizer& optimizer = Adam({.learning_rate = 0.05})) {
  const StrategyScope scope(strategy);
  Graph graph = NewGraph();
  build(graph, optimizer);
  Session session = NewSession(graph, {.workers = 1}).value();
  std::vector<double> losses;
  for (int64_t step = 0; step < 40; ++step)
    losses.push_back(session.Run(DrawBatch(step))->scalar("loss").value());
  return losses;
}

}  // namespace meshwork
