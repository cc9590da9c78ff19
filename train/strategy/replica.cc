#include "meshwork/train/strategy/replica.h"

#include <algorithm>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/ir/pull_back.h"
#include "meshwork/ops/control/manual.h"
#include "meshwork/ops/ops.h"
#include "meshwork/train/strategy/padded_rows.h"

namespace meshwork {
namespace {

// i64[].
Value Whole(Graph& graph, int64_t value) { return Constant(graph, static_cast<double>(value), {I64, {}}); }

// The spec of a value whose dim 0 is cut over the replicas.
LayoutSpec OverReplicas(const Strategy& strategy, int rank) {
  LayoutSpec spec(static_cast<size_t>(rank), DimSpec(UNSHARDED));
  if (!strategy.replica_axes().empty()) spec[0] = DimSpec(strategy.replica_axes());
  return spec;
}

// bool[size]: true for the first `count`.
Value FirstOf(Graph& graph, int64_t size, const Value& count) {
  return Less(Iota(graph, {I64, {size}}, 0), count);
}

// x: [n, …]. All rows but the first `count` become 0, also those that hold infinities or NaNs.
Value OnlyFirst(const Value& x, const Value& count) {
  Shape beside(static_cast<size_t>(x.type().rank()), 1);
  beside[0] = x.shape()[0];
  return Select(Reshape(FirstOf(*x.graph(), x.shape()[0], count), beside), x, 0.0);
}

// The mean over `rows` rows, of which `sum` is the sum. No rows: the sum itself.
Value OverRows(const Value& sum, const Value& rows) { return sum / Cast(Maximum(rows, 1.0), sum.dtype()); }

std::vector<int64_t> DimsFrom(int64_t first, int rank) {
  std::vector<int64_t> dims;
  for (int64_t d = first; d < rank; ++d) dims.push_back(d);
  return dims;
}

Value MeanOfOtherDims(const Value& x) {
  return x.type().rank() > 1 ? ReduceMean(x, DimsFrom(1, x.type().rank())) : x;
}

}  // namespace

// ---- In the region.

Value ReplicaContext::replica_id() const {
  if (num_replicas_in_sync() == 1) return Whole(body_, 0);
  return manual::AxisIndex(body_, strategy_.replica_axes());
}

int64_t ReplicaContext::num_replicas_in_sync() const { return strategy_.num_replicas_in_sync(); }

Value ReplicaContext::num_rows() const {
  return Clip(rows_ - replica_id() * static_cast<double>(part_), 0, static_cast<double>(part_));
}

Value ReplicaContext::row_mask() const { return FirstOf(body_, part_, num_rows()); }

Value ReplicaContext::AllReduce(ReplicaReduce how, const Value& x) const {
  if (!x.valid() || num_replicas_in_sync() == 1) return x;
  const Value varied = manual::Vary(x, strategy_.replica_axes());
  const Value sum = manual::AllReduce(varied, strategy_.replica_axes());
  return how == ReplicaReduce::kSum ? sum : sum / static_cast<double>(num_replicas_in_sync());
}

Value ReplicaContext::AllGather(const Value& x, int64_t dim) const {
  if (!x.valid() || num_replicas_in_sync() == 1) return x;
  return manual::AllGather(x, dim < 0 ? dim + x.type().rank() : dim, strategy_.replica_axes());
}

std::vector<Value> ReplicaContext::MergeCall(
    const std::function<std::vector<Value>(const std::vector<Value>& stacked)>& merge,
    const std::vector<Value>& values) const {
  std::vector<Value> stacked;
  for (const Value& value : values) stacked.push_back(AllGather(ExpandDims(value, {0}), 0));
  return merge(stacked);
}

Value ReplicaContext::AverageLoss(const Value& per_example, int64_t global_batch_size, CallSite loc) const {
  if (!per_example.valid()) return {};
  if (per_example.type().rank() == 0 || per_example.shape()[0] != part_) {
    body_.RecordError(fmt::format(
        "AverageLoss ({}): the loss is {}, and a part of the batch has {}; give a loss per example, with Reduction::kNone.",
        SourceLocation(loc).ToString(), per_example.type().ToString(), Count(part_, "row")));
    return {};
  }
  const Value sum = ReduceSum(MeanOfOtherDims(OnlyFirst(per_example, num_rows())), {0});
  if (global_batch_size > 0) return sum / static_cast<double>(global_batch_size);
  return OverRows(sum, rows_);
}

Value ReplicaContext::ScaleRegularization(const Value& loss) const {
  return loss / static_cast<double>(num_replicas_in_sync());
}

std::vector<Value> ReplicaContext::Gradients(const Value& loss, const ValueList& variables,
                                             CallSite loc) const {
  std::vector<Value> inner;
  for (const Value& variable : variables.values()) {
    const Value captured = variable.valid() ? body_.Capture(variable) : Value();
    if (!captured.valid()) {
      body_.RecordError(fmt::format(
          "Gradients ({}): a variable is not of the program in which Run was called; make variables before it.",
          SourceLocation(loc).ToString()));
      return std::vector<Value>(variables.values().size());
    }
    inner.push_back(captured);
  }
  std::optional<std::vector<Value>> reached = OwnGradients(loss, inner, loc);
  if (!reached.has_value()) return std::vector<Value>(inner.size());
  for (size_t i = 0; i < inner.size(); ++i)
    if (!(*reached)[i].valid()) (*reached)[i] = Constant(body_, 0.0, inner[i].type());
  return *std::move(reached);
}

std::optional<std::vector<Value>> ReplicaContext::OwnGradients(const Value& loss,
                                                               std::span<const Value> inner,
                                                               CallSite loc) const {
  if (num_replicas_in_sync() == 1) return ReachedGradients(loss, inner, loc);
  return manual::OwnGradients(loss, inner, strategy_.replica_axes(), loc);
}

void ReplicaContext::ApplyGradients(const Optimizer& optimizer, std::vector<VariableGradient> gradients) {
  applied_.push_back({optimizer, std::move(gradients)});
}

void ReplicaContext::Minimize(const Optimizer& optimizer, const Value& loss, CallSite loc) {
  if (!loss.valid()) return;
  std::vector<Value> inner;
  std::vector<Variable> variables;
  for (const Argument& argument : outer_.arguments()) {
    if (!argument.is_variable || !argument.is_trainable || !IsFloat(outer_.value(argument.value).type.dtype))
      continue;
    for (const auto& [outer, captured] : body_.captured()) {
      if (outer != argument.value) continue;
      inner.push_back(Value(&body_, captured));
      variables.push_back(Variable(&outer_, outer));
    }
  }
  const std::optional<std::vector<Value>> reached = OwnGradients(loss, inner, loc);
  if (!reached.has_value()) return;
  std::vector<VariableGradient> gradients;
  for (size_t i = 0; i < variables.size(); ++i)
    if ((*reached)[i].valid()) gradients.push_back({variables[i], (*reached)[i]});
  if (gradients.empty())
    return body_.RecordError(fmt::format(
        "Minimize ({}): the loss of a replica depends on no trainable variable; compute it from the variables of the model.",
        SourceLocation(loc).ToString()));
  ApplyGradients(optimizer, std::move(gradients));
}

void ReplicaContext::Assign(const Variable& variable, const Value& value, ReplicaReduce how) {
  assigned_.push_back({variable, value, how});
}

BatchView ReplicaContext::ViewOfBatch(bool may_be_padded) {
  BatchView view;
  view.mean = [this, may_be_padded](const Value& x, const std::vector<int64_t>& dims) -> Value {
    if (!x.valid()) return {};
    if (!may_be_padded) return AllReduce(ReplicaReduce::kMean, ReduceMean(x, dims, /*keep_dims=*/true));
    if (x.shape()[0] != part_) {
      body_.RecordError(fmt::format(
          "{}: x is {}, and a part of the batch has {}, of which some may fill it up; call it where dim 0 counts these "
          "rows, or give a batch of a multiple of {} rows, without `rows`.",
          body_.Describe("batch_norm", body_.value(x.id()).location), x.type().ToString(),
          Count(part_, "row"), num_replicas_in_sync()));
      return {};
    }
    const Value sum =
        AllReduce(ReplicaReduce::kSum, ReduceSum(OnlyFirst(x, num_rows()), dims, /*keep_dims=*/true));
    means_.push_back(sum / Maximum(CountOf(x, dims, sum.dtype()), 1.0));
    return means_.back();
  };
  view.count = [this](const Value& x, const std::vector<int64_t>& dims, DType dtype) {
    return CountOf(x, dims, dtype);
  };
  view.update = [this](const Variable& variable, const std::function<Value(const Value&)>& next) {
    for (Assigned& assigned : assigned_) {
      if (assigned.variable.id() != variable.id() || assigned.how.has_value()) continue;
      assigned.value = next(assigned.value);
      return;
    }
    assigned_.push_back({variable, next(body_.Capture(variable)), std::nullopt});
  };
  return view;
}

Value ReplicaContext::CountOf(const Value& x, const std::vector<int64_t>& dims, DType dtype) const {
  int64_t elements = 1;
  for (int64_t d : dims) elements *= x.shape()[static_cast<size_t>(d)];
  if (part_ == 0 || x.shape()[0] % part_ != 0)  // not of the batch
    return Constant(body_, static_cast<double>(elements * num_replicas_in_sync()), {dtype, {}});
  return Cast(rows_, dtype) * static_cast<double>(elements / part_);
}

// ---- The region.

// A call of Strategy::Run.
class ReplicaRegion {
 public:
  ReplicaRegion(const Strategy& strategy, Graph& graph, Value rows, CallSite loc)
      : strategy_(strategy), graph_(graph), rows_(std::move(rows)), loc_(loc) {}

  std::vector<PerReplica> Build(const std::vector<Value>& inputs, const ReplicaFunction& function) {
    if (!Check(inputs)) return {};
    const int64_t replicas = strategy_.num_replicas_in_sync();
    part_ = (batch_ + replicas - 1) / replicas;
    are_rows_given_ = rows_.valid();
    if (!are_rows_given_) rows_ = Whole(graph_, batch_);
    std::vector<Value> operands = {rows_};
    std::vector<LayoutSpec> layouts = {{}};
    for (const Value& input : inputs) {
      operands.push_back(Padded(input, part_ * replicas));
      const int rank = input.type().rank();
      layouts.push_back(rank == 0 ? LayoutSpec() : OverReplicas(strategy_, rank));
    }
    size_t results = 0;
    const auto body = [&](Graph& inner, const std::vector<Value>& blocks) {
      context_.reset(new ReplicaContext(strategy_, graph_, inner, part_, blocks[0]));
      if (replicas > 1) {
        inner.SetRandomPlace([this] {
          RandomPlace place = graph_.random_place();
          place.block = context_->replica_id();
          return place;
        });
        inner.SetMeanWeight(
            [this](const Value& weight) { return context_->AllReduce(ReplicaReduce::kMean, weight); });
      }
      inner.SetBatchView(context_->ViewOfBatch(MayBePadded()));
      std::vector<Value> returned = function(*context_, std::vector<Value>(blocks.begin() + 1, blocks.end()));
      results = returned.size();
      for (const auto& applied : context_->applied_)
        for (const VariableGradient& gradient : applied.gradients) returned.push_back(gradient.gradient);
      CheckPadding(inner, blocks);
      std::vector<manual::BlockResult> all = Stacked(returned);
      for (const auto& [variable, value, how] : context_->assigned_) {
        if (how.has_value()) all.push_back(Stacked({value})[0]);
        else all.push_back({value, LayoutSpec(static_cast<size_t>(value.rank()), UNSHARDED)});
      }
      return all;
    };
    const std::vector<Value> all = manual::Region(graph_, operands, layouts, body, loc_);
    if (all.empty()) return std::vector<PerReplica>(results);
    Update(all, results);
    std::vector<PerReplica> values;
    for (size_t i = 0; i < results; ++i) values.emplace_back(all[i], batch_, part_, rows_);
    return values;
  }

 private:
  // Each value becomes a row of a tensor that has the values of all replicas.
  std::vector<manual::BlockResult> Stacked(const std::vector<Value>& values) const {
    std::vector<manual::BlockResult> results;
    for (const Value& value : values) {
      if (!value.valid()) {
        results.push_back({value, {}});
        continue;
      }
      const Value row = ExpandDims(value, {0});
      results.push_back({row, OverReplicas(strategy_, row.type().rank())});
    }
    return results;
  }

  bool Check(const std::vector<Value>& inputs) {
    const auto fail = [&](const std::string& message) {
      graph_.RecordError(fmt::format("Run ({}): {}", SourceLocation(loc_).ToString(), message));
      return false;
    };
    if (graph_.is_manual())
      return fail("it is called for a replica already; Run is called for the program of all of them.");
    if (const absl::Status on_mesh = strategy_.CheckMesh(graph_); !on_mesh.ok())
      return fail(std::string(MessageOf(on_mesh)));
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].valid()) return false;
      if (inputs[i].type().rank() == 0) continue;
      const int64_t rows = inputs[i].shape()[0];
      if (batch_ == 0) batch_ = rows;
      else if (rows != batch_)
        return fail(
            fmt::format("input {} is {}, and another one has {}; dim 0 counts the examples of the batch.", i,
                        inputs[i].type().ToString(), Count(batch_, "row")));
    }
    return true;
  }

  bool MayBePadded() const { return are_rows_given_ || part_ * strategy_.num_replicas_in_sync() != batch_; }

  // Records an error if an op reads padding as if it were real rows. `blocks`: the number of real rows, then the parts.
  void CheckPadding(const Graph& inner, const std::vector<Value>& blocks) {
    if (!MayBePadded()) return;
    const int64_t replicas = strategy_.num_replicas_in_sync();
    const bool is_divided = part_ * replicas == batch_;
    const std::optional<int> use =
        FindUseOfPadding(inner, {blocks.begin() + 1, blocks.end()}, blocks[0], context_->means_);
    if (!use.has_value()) return;
    graph_.RecordError(fmt::format(
        "Run ({}): {} goes over the rows of a part, of which some may be zeros that fill it up: {}. Leave them out by "
        "ReplicaContext::row_mask (Select, or weights of a loss), num_rows or AverageLoss{}.",
        SourceLocation(loc_).ToString(), inner.Describe(*use),
        is_divided ? "the batch may be short, as its rows are given"
                   : fmt::format("{} do not divide {}", Count(replicas, "replica"), Count(batch_, "row")),
        is_divided ? "" : fmt::format(", or give a batch that {} divides", replicas)));
  }

  static Value Padded(const Value& input, int64_t rows) {
    if (input.type().rank() == 0 || input.shape()[0] == rows) return input;
    std::vector<int64_t> low(static_cast<size_t>(input.type().rank())), high = low;
    high[0] = rows - input.shape()[0];
    return Pad(input, low, high);
  }

  // Applies the gradients and assignments of all replicas together. `all`: the results of the function, then the
  // gradients, then the assigned values. `at`: where the gradients begin.
  void Update(const std::vector<Value>& all, size_t at) {
    for (const auto& applied : context_->applied_) {
      std::vector<VariableGradient> sums;
      for (const VariableGradient& gradient : applied.gradients)
        sums.push_back({gradient.variable, ReduceSum(all[at++], {0})});
      applied.optimizer.ApplyGradients(sums, loc_);
    }
    for (const auto& assigned : context_->assigned_) {
      const Value& result = all[at++];
      graph_.Update(assigned.variable,
                    !assigned.how.has_value()              ? result
                    : *assigned.how == ReplicaReduce::kSum ? ReduceSum(result, {0})
                                                           : ReduceMean(result, {0}),
                    loc_);
    }
  }

  const Strategy& strategy_;
  Graph& graph_;
  Value rows_;
  const CallSite loc_;
  int64_t batch_ = 0, part_ = 0;
  bool are_rows_given_ = false;
  std::unique_ptr<ReplicaContext> context_;
};

std::vector<PerReplica> Strategy::Run(Graph& graph, const std::vector<Value>& inputs,
                                      const ReplicaFunction& function, const Value& rows,
                                      CallSite loc) const {
  return ReplicaRegion(*this, graph, rows, loc).Build(inputs, function);
}

// ---- Between replicas.

Value Strategy::Reduce(ReplicaReduce how, const PerReplica& value, std::optional<int64_t> axis,
                       CallSite loc) const {
  const Value& stacked = value.stacked();
  if (!stacked.valid()) return {};
  const auto over = [&](const Value& x, const std::vector<int64_t>& dims) {
    return how == ReplicaReduce::kSum ? ReduceSum(x, dims) : ReduceMean(x, dims);
  };
  if (!axis.has_value()) return over(stacked, {0});
  const int rank = stacked.type().rank() - 1;
  const int64_t dim = *axis < 0 ? *axis + rank : *axis;
  if (dim < 0 || dim >= rank) {
    stacked.graph()->RecordError(fmt::format(
        "Reduce ({}): axis={}; what a replica has is of {}; leave the axis out, or name one of them.",
        SourceLocation(loc).ToString(), *axis, Count(rank, "dim")));
    return {};
  }
  if (dim > 0) return over(stacked, {0, dim + 1});
  const Value rows = Gather(value, 0, loc);
  if (!rows.valid()) return {};
  const Value sum = ReduceSum(OnlyFirst(rows, value.rows()), {0});
  return how == ReplicaReduce::kSum ? sum : OverRows(sum, value.rows());
}

Value Strategy::Gather(const PerReplica& value, int64_t dim, CallSite loc) const {
  const Value& stacked = value.stacked();
  if (!stacked.valid()) return {};
  const Type& type = stacked.type();
  const auto fail = [&](const std::string& message) {
    stacked.graph()->RecordError(fmt::format("Gather ({}): {}", SourceLocation(loc).ToString(), message));
    return Value();
  };
  if (type.rank() < 2)
    return fail("what a replica has is one number; Reduce adds them up, and stacked() has all of them.");
  if (dim < 0 || dim >= type.rank() - 1)
    return fail(fmt::format("dim={}; what a replica has is of {}; name one of them.", dim,
                            Count(type.rank() - 1, "dim")));
  std::vector<int64_t> order = DimsFrom(1, type.rank());
  order.insert(order.begin() + dim, 0);
  Shape joined(type.shape.begin() + 1, type.shape.end());
  joined[static_cast<size_t>(dim)] *= type.shape[0];
  const Value all = Reshape(dim == 0 ? stacked : Transpose(stacked, order), joined);
  // If dim 0 is the rows of a part, padding stands behind the rows of the batch.
  const bool has_rows = dim == 0 && value.part() > 0 && type.shape[1] == value.part();
  return has_rows && value.batch() < joined[0] ? SliceDim(all, 0, 0, value.batch()) : all;
}

std::vector<Tensor> Strategy::LocalResults(const Tensor& stacked) const {
  std::vector<Tensor> results;
  if (stacked.type().rank() == 0) return {stacked};
  for (int64_t r = 0; r < stacked.shape()[0]; ++r) results.push_back(stacked[r]);
  return results;
}

Value ComputeAverageLoss(const Value& per_example, int64_t global_batch_size, CallSite loc) {
  if (!per_example.valid()) return {};
  if (per_example.type().rank() == 0 || global_batch_size < 1) {
    per_example.graph()->RecordError(fmt::format(
        "ComputeAverageLoss ({}): the loss is {}, the global batch {}; give a loss per example, with Reduction::kNone, "
        "and a batch of at least 1.",
        SourceLocation(loc).ToString(), per_example.type().ToString(), global_batch_size));
    return {};
  }
  return ReduceSum(MeanOfOtherDims(per_example), {0}) / static_cast<double>(global_batch_size);
}

Value ScaleRegularizationLoss(const Value& loss) {
  return loss / static_cast<double>(GetStrategy().num_replicas_in_sync());
}

}  // namespace meshwork
