// The view of one replica: code that is written for one part of the batch, and runs on every replica.
//
//   const Value x = graph.Input("x", F32, {64, 784}), y = graph.Input("y", I32, {64});
//   const Dense dense(graph, "dense", 784, 10);
//   const std::vector<PerReplica> losses = strategy.Run(graph, {x, y}, [&](ReplicaContext& replica, const std::vector<Value>& part) {
//     const Value each = SparseSoftmaxCrossEntropy(dense(part[0]), part[1], {.reduction = Reduction::kNone});
//     const Value loss = replica.AverageLoss(each, 64);
//     replica.Minimize(Sgd({}), loss);                              // gradients are summed over the replicas first
//     return std::vector<Value>{loss};
//   });
//   graph.Output("loss", strategy.Reduce(ReplicaReduce::kSum, losses[0]));
//
// The function is called once. It builds a manual region (ops/control/manual.h), which each replica runs on its own
// part. A batch that the replicas do not divide is padded: every part has ⌈batch / replicas⌉ rows, and in the parts of
// the last replicas fewer of these, or none, are real. ReplicaContext::num_rows says how many are; AverageLoss, and the
// functions here that go over rows, leave the padding out. Their results are those of the view of the whole batch,
// which is the default and needs none of this. If parts may be padded, a function that combines rows (a mean, a maximum
// over gathered rows) without asking how many are real is an error; a sum is allowed if its terms are zero for rows of
// zeros.
//
// Batch norms have the statistics of the real rows of all replicas. A random tensor whose dim 0 is the rows of a part
// has, on each replica, the numbers that these rows have in the whole batch; other random tensors have numbers of the
// replica's own. Means that leave rows out (MeanOver, ops/losses.h) are divided by the mean of the replicas' weights.
//
// Values of the surrounding program that the function reads are whole, and the same on each replica. Variables are
// made outside of the function.
//
// After tf.distribute.Strategy.run, ReplicaContext and PerReplica; docs/strategies.md says what is different.
// Mistakes are recorded in the graph, as those of all builders.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/ir/value_list.h"
#include "meshwork/train/optim/optimizers.h"
#include "meshwork/train/strategy/strategy.h"

namespace meshwork {

enum class ReplicaReduce : uint8_t { kSum, kMean };

// A value that each replica has a version of. It is no tensor of the whole batch: Strategy::Reduce, Strategy::Gather or
// stacked() make one of it.
class PerReplica {
 public:
  PerReplica() = default;
  // `stacked`: [n, …].
  PerReplica(Value stacked, int64_t batch, int64_t part, Value rows)
      : stacked_(std::move(stacked)), batch_(batch), part_(part), rows_(std::move(rows)) {}

  // [n, …]: row r is the value of replica r. Strategy::LocalResults splits an output of it into one tensor per replica.
  const Value& stacked() const { return stacked_; }
  // The rows of the batch, and of a part of it, padding included; 0 if there was no batch.
  int64_t batch() const { return batch_; }
  int64_t part() const { return part_; }
  // i64[]: how many rows of the batch are real.
  const Value& rows() const { return rows_; }

 private:
  Value stacked_;
  int64_t batch_ = 0, part_ = 0;
  Value rows_;
};

// A replica's view of itself and of the other replicas, while the function of Strategy::Run is called.
class ReplicaContext {
 public:
  // The number of this replica, i64[] in [0, n).
  Value replica_id() const;
  int64_t num_replicas_in_sync() const;
  // i64[]: how many rows of this replica's part are real; they are its first ones.
  Value num_rows() const;
  // bool[part]: which they are.
  Value row_mask() const;

  // x: any shape -> the same shape: the sum, or the mean, over the replicas; all replicas have the result.
  Value AllReduce(ReplicaReduce how, const Value& x) const;
  // x: [a,m,b] at `dim` -> [a,n·m,b]: the values of the replicas, one after the other; all replicas have the result.
  Value AllGather(const Value& x, int64_t dim = 0) const;
  // The results of `merge`, which is given the values of all replicas, each stacked to [n, …]. They are the same on all
  // replicas; each replica computes them for itself.
  std::vector<Value> MergeCall(
      const std::function<std::vector<Value>(const std::vector<Value>& stacked)>& merge,
      const std::vector<Value>& values) const;

  // The sum over this replica's real rows, divided by `global_batch_size` or, if that is 0, by the number of real
  // rows of all replicas. The sum of it over the replicas is the mean of the batch. per_example: [part, …]; other
  // dims are averaged.
  Value AverageLoss(const Value& per_example, int64_t global_batch_size = 0,
                    CallSite loc = CallSite::Current()) const;
  // A regularization, which is the same on all replicas, divided by their number: summed over the replicas, it counts
  // once.
  Value ScaleRegularization(const Value& loss) const;

  // This replica's share of d (the sum of the losses of all replicas) / d variables[i]. If replicas exchange nothing,
  // this is d loss / d variables[i] of its own loss. Losses of other replicas contribute through AllReduce,
  // AllGather, MergeCall and batch norms, as in tf.distribute. A loss that is summed over the replicas already counts
  // once for each replica.
  std::vector<Value> Gradients(const Value& loss, const ValueList& variables,
                               CallSite loc = CallSite::Current()) const;
  // After the region, the optimizer updates the variables by the sum of all replicas' gradients. Errors: those of
  // Optimizer::ApplyGradients.
  void ApplyGradients(const Optimizer& optimizer, std::vector<VariableGradient> gradients);
  // ApplyGradients, with the gradients of all trainable variables of the graph that this replica's loss depends on.
  void Minimize(const Optimizer& optimizer, const Value& loss, CallSite loc = CallSite::Current());
  // After the step, the variable holds the sum, or the mean, of the replicas' values.
  void Assign(const Variable& variable, const Value& value, ReplicaReduce how = ReplicaReduce::kMean);

 private:
  friend class ReplicaRegion;
  ReplicaContext(const Strategy& strategy, Graph& outer, Graph& body, int64_t part, Value rows)
      : strategy_(strategy), outer_(outer), body_(body), part_(part), rows_(std::move(rows)) {}

  struct Applied {
    Optimizer optimizer;
    std::vector<VariableGradient> gradients;  // of the body
  };
  struct Assigned {
    Variable variable;
    Value value;                       // of the body
    std::optional<ReplicaReduce> how;  // nothing: it is the same on all replicas
  };

  // As Gradients, but invalid for variables that no gradient reaches. `inner`: the variables, as values of the body.
  std::optional<std::vector<Value>> OwnGradients(const Value& loss, std::span<const Value> inner,
                                                 CallSite loc) const;
  BatchView ViewOfBatch(bool may_be_padded);
  // The number of elements that x has along `dims` in real rows, on all replicas together.
  Value CountOf(const Value& x, const std::vector<int64_t>& dims, DType dtype) const;

  const Strategy strategy_;
  Graph& outer_;
  Graph& body_;
  const int64_t part_;
  const Value rows_;  // of the body
  std::vector<Applied> applied_;
  std::vector<Assigned> assigned_;
  std::vector<Value> means_;  // over the real rows of all replicas
};

// The mean over a global batch, in the view of the whole batch: the sum of the examples' losses, divided by
// `global_batch_size`, which may be larger than b. per_example: [b, …]; other dims are averaged.
Value ComputeAverageLoss(const Value& per_example, int64_t global_batch_size,
                         CallSite loc = CallSite::Current());
// A regularization divided by the number of replicas of GetStrategy(), for code that sums losses over the replicas.
Value ScaleRegularizationLoss(const Value& loss);

}  // namespace meshwork
