// Softmax and losses in terms of rows; their partitioning and gradients follow from those.
#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

#include "meshwork/base/status.h"
#include "meshwork/ir/builder.h"
#include "meshwork/ops/hyperparameters.h"
#include "meshwork/ops/ops.h"

namespace meshwork {
namespace {

// x minus its maximum along `dim`. The shift changes neither a softmax nor its gradient, so that it is a
// constant to the latter.
Value Shifted(const Operand& x, int64_t dim) {
  return Sub(x, StopGradient(ReduceMax(x, {dim}, /*keep_dims=*/true)));
}

// Checks logits: floats [..,c], labels: whole numbers [..].
bool CheckLabels(const ResolvedOperands& at, std::string_view op) {
  const Type &logits = at.values[0].type(), &labels = at.values[1].type();
  if (IsFloat(logits.dtype) && IsInteger(labels.dtype) && logits.rank() == labels.rank() + 1 &&
      std::equal(labels.shape.begin(), labels.shape.end(), logits.shape.begin()))
    return true;
  RecordMistake(at, op,
                "logits are {}, labels {}; they must be f32, f64 or bf16 [..,c] and i32 or i64 [..] with the "
                "same sizes.",
                logits.ToString(), labels.ToString());
  return false;
}

// Checks that both operands are floats of one type: broadcasting [b,1] with [b] makes a [b,b] that no loss
// means.
bool CheckAlike(const ResolvedOperands& at, std::string_view op, std::string_view first,
                std::string_view second) {
  const Type &a = at.values[0].type(), &b = at.values[1].type();
  if (IsFloat(a.dtype) && a == b) return true;
  RecordMistake(at, op, "{} are {}, {} {}; they must be floats of one type.", first, a.ToString(), second,
                b.ToString());
  return false;
}

std::vector<int64_t> AllDims(const Value& x) {
  if (!x.valid()) return {};
  std::vector<int64_t> dims(x.rank());
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

// The lowest finite number.
double LowestOf(DType dtype) {
  if (dtype == F64) return std::numeric_limits<double>::lowest();
  return dtype == F32 ? std::numeric_limits<float>::lowest() : -0x1.fep127;
}

Value MeanOfAll(const Value& x) { return ReduceMean(x, AllDims(x)); }

}  // namespace

Value Softmax(const Operand& x, int64_t dim) {
  const ResolvedOperands at = Resolve({x});
  if (at.graph == nullptr) return {};
  const LocationScope scope(*at.graph, at.location);
  const std::optional<int64_t> d = CountDim(at, "softmax", dim);
  if (!d.has_value()) return {};
  const Value e = Exp(Shifted(at.values[0], *d));
  return Div(e, ReduceSum(e, {*d}, /*keep_dims=*/true));
}

Value LogSoftmax(const Operand& x, int64_t dim) {
  const ResolvedOperands at = Resolve({x});
  if (at.graph == nullptr) return {};
  const LocationScope scope(*at.graph, at.location);
  const std::optional<int64_t> d = CountDim(at, "log_softmax", dim);
  if (!d.has_value()) return {};
  const Value z = Shifted(at.values[0], *d);
  return Sub(z, Log(ReduceSum(Exp(z), {*d}, /*keep_dims=*/true)));
}

Value SparseSoftmaxCrossEntropy(const Operand& logits, const Operand& labels) {
  const ResolvedOperands at = Resolve({logits, labels});
  if (at.graph == nullptr || !CheckLabels(at, "sparse_softmax_cross_entropy")) return {};
  const LocationScope scope(*at.graph, at.location);
  const Value& label = at.values[1];
  const int64_t last = at.values[0].rank() - 1;
  const Value z = Shifted(at.values[0], last);
  // Two sums that do not need each other, so that classes that are sharded cost one all-reduce for both.
  const Value sum = ReduceSum(Exp(z), {last});
  // Selected, not multiplied: a class that is masked by -inf must not make 0 · inf.
  const Value is_label = OneHot(label, z.shape().back(), BOOL);
  const Value target = ReduceSum(Select(is_label, z, 0.0), {last});
  const Value is_below = Less(label, DimensionSize(z, {last}, label.dtype()));
  const Value is_class = And(GreaterEqual(label, 0), is_below);
  return MeanOfAll(Select(is_class, Sub(Log(sum), target), 0.0));
}

Value SoftmaxCrossEntropy(const Operand& logits, const Operand& labels) {
  const ResolvedOperands at = Resolve({logits, labels});
  if (at.graph == nullptr || !CheckAlike(at, "softmax_cross_entropy", "logits", "labels")) return {};
  const LocationScope scope(*at.graph, at.location);
  const Value& shares = at.values[1];
  if (shares.rank() == 0) {
    RecordMistake(at, "softmax_cross_entropy", "takes at least one dim, got {}.", shares.type().ToString());
    return {};
  }
  const int64_t last = shares.rank() - 1;
  const Value z = Shifted(at.values[0], last);
  // -sum(labels · (z - log(sum))), as three sums that do not need each other. They all have one sign, so that
  // nothing cancels.
  const Value sum = ReduceSum(Exp(z), {last});
  // A class that is masked by -inf has probability 0; the lowest number keeps it from making 0 · inf.
  const Value target = ReduceSum(Mul(shares, Maximum(z, LowestOf(z.dtype()))), {last});
  return MeanOfAll(Sub(Mul(ReduceSum(shares, {last}), Log(sum)), target));
}

Value BinaryCrossEntropyWithLogits(const Operand& logits, const Operand& labels) {
  const ResolvedOperands at = Resolve({logits, labels});
  if (at.graph == nullptr || !CheckAlike(at, "binary_cross_entropy_with_logits", "logits", "labels"))
    return {};
  const LocationScope scope(*at.graph, at.location);
  const Value &z = at.values[0], &y = at.values[1];
  // Both branches by one condition: at z = 0 their slopes, 1 and -1/2, add up to the sigmoid's 1/2.
  const Value above = GreaterEqual(z, 0.0);
  const Value positive = Select(above, z, 0.0), minus_size = Select(above, Neg(z), z);
  return MeanOfAll(Add(Sub(positive, Mul(z, y)), Log1p(Exp(minus_size))));
}

Value MeanSquaredError(const Operand& predictions, const Operand& targets) {
  const ResolvedOperands at = Resolve({predictions, targets});
  if (at.graph == nullptr || !CheckAlike(at, "mean_squared_error", "predictions", "targets")) return {};
  const LocationScope scope(*at.graph, at.location);
  return MeanOfAll(SquaredDifference(at.values[0], at.values[1]));
}

Value Accuracy(const Operand& logits, const Operand& labels, DType dtype) {
  const ResolvedOperands at = Resolve({logits, labels});
  if (at.graph == nullptr || !CheckLabels(at, "accuracy")) return {};
  const LocationScope scope(*at.graph, at.location);
  Value guess = Argmax(at.values[0], at.values[0].rank() - 1);
  if (guess.valid() && guess.dtype() != at.values[1].dtype()) guess = Cast(guess, at.values[1].dtype());
  return MeanOfAll(Cast(Equal(guess, at.values[1]), dtype));
}

Value MeanAbsoluteError(const Operand& predictions, const Operand& targets) {
  const ResolvedOperands at = Resolve({predictions, targets});
  if (at.graph == nullptr || !CheckAlike(at, "mean_absolute_error", "predictions", "targets")) return {};
  const LocationScope scope(*at.graph, at.location);
  return MeanOfAll(Abs(Sub(at.values[0], at.values[1])));
}

Value HuberLoss(const Operand& predictions, const Operand& targets, double delta) {
  const ResolvedOperands at = Resolve({predictions, targets});
  if (at.graph == nullptr || !CheckAlike(at, "huber_loss", "predictions", "targets")) return {};
  if (const absl::Status status = CheckPositive("delta", delta); !status.ok()) {
    RecordMistake(at, "huber_loss", "{}", MessageOf(status));
    return {};
  }
  const LocationScope scope(*at.graph, at.location);
  // With c the size of the error, at most delta: c (|e| - c/2) is e²/2 up to delta and a line behind it.
  const Value size = Abs(Sub(at.values[0], at.values[1])), near = Minimum(size, delta);
  return MeanOfAll(Mul(near, Sub(size, Mul(near, 0.5))));
}

Value HingeLoss(const Operand& scores, const Operand& labels) {
  const ResolvedOperands at = Resolve({scores, labels});
  if (at.graph == nullptr || !CheckAlike(at, "hinge_loss", "scores", "labels")) return {};
  const LocationScope scope(*at.graph, at.location);
  return MeanOfAll(Relu(Sub(1.0, Mul(at.values[0], at.values[1]))));
}

Value KlDivergence(const Operand& log_predictions, const Operand& targets) {
  const ResolvedOperands at = Resolve({log_predictions, targets});
  if (at.graph == nullptr || !CheckAlike(at, "kl_divergence", "log_predictions", "targets")) return {};
  const LocationScope scope(*at.graph, at.location);
  const Value &log_q = at.values[0], &p = at.values[1];
  if (p.rank() == 0) {
    RecordMistake(at, "kl_divergence", "takes at least one dim, got {}.", p.type().ToString());
    return {};
  }
  // What has no share adds nothing, however unlikely it was held.
  const Value has_share = NotEqual(p, 0.0);
  const Value log_p = Log(Select(has_share, p, 1.0));
  return MeanOfAll(ReduceSum(Mul(p, Sub(log_p, Select(has_share, log_q, 0.0))), {p.rank() - 1}));
}

}  // namespace meshwork
