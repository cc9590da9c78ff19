// Functions written in terms of rows; their partitioning and gradients follow from those.
#include "base/status.h"
#include "ops/builder.h"

namespace meshwork {
namespace {

// Records `message` against `op` and returns an invalid value.
Value Fail(const ResolvedOperands& at, std::string_view op, std::string message) {
  at.graph->RecordError(fmt::format("{}: {}", at.graph->Describe(op, at.location), message));
  return {};
}

// Checks logits: [b,c] floats, labels: [b] integers.
bool CheckLabels(const ResolvedOperands& at, std::string_view op) {
  const Type& logits = at.values[0].type();
  const Type& labels = at.values[1].type();
  if (logits.rank() == 2 && IsFloat(logits.dtype) && labels.rank() == 1 && IsInteger(labels.dtype) &&
      labels.shape[0] == logits.shape[0]) {
    return true;
  }
  Fail(at, op,
       fmt::format("logits are {}, labels {}; they must be f32 or f64 [b,c] and i32 or i64 [b].",
                   logits.ToString(), labels.ToString()));
  return false;
}

}  // namespace

Value LogSoftmax(const Operand& x) {
  const ResolvedOperands at = Resolve({x});
  if (at.graph == nullptr) return {};
  const Value& v = at.values[0];
  if (v.rank() == 0)
    return Fail(at, "log_softmax", "takes at least one dim, got " + v.type().ToString() + ".");
  const std::vector<int64_t> last = {v.rank() - 1};
  const LocationScope scope(*at.graph, at.location);
  // The shift changes no value and no gradient, so it is a constant to the latter.
  Value shift = StopGradient(ReduceMax(x, last, /*keep_dims=*/true));
  Value z = Sub(x, shift);
  return Sub(z, Log(ReduceSum(Exp(z), last, /*keep_dims=*/true)));
}

Value SparseSoftmaxCrossEntropy(const Operand& logits, const Operand& labels) {
  const ResolvedOperands at = Resolve({logits, labels});
  if (at.graph == nullptr || !CheckLabels(at, "sparse_softmax_cross_entropy")) return {};
  const LocationScope scope(*at.graph, at.location);
  const Value& z = at.values[0];
  // Selected, not multiplied: a class that is masked by -inf must not make 0 · inf.
  Value is_label = OneHot(at.values[1], z.shape()[1], BOOL);
  Value per_row = ReduceSum(Select(is_label, LogSoftmax(logits), 0.0), {1});
  return Neg(ReduceMean(per_row, {0}));
}

Value Accuracy(const Operand& logits, const Operand& labels, DType dtype) {
  const ResolvedOperands at = Resolve({logits, labels});
  if (at.graph == nullptr || !CheckLabels(at, "accuracy")) return {};
  const LocationScope scope(*at.graph, at.location);
  Value guess = Argmax(logits, 1);
  if (guess.valid() && guess.dtype() != at.values[1].dtype()) guess = Cast(guess, at.values[1].dtype());
  return ReduceMean(Cast(Equal(guess, at.values[1]), dtype), {0});
}

Value Dropout(const Operand& x, double rate, int64_t seed, int64_t stream, const Value& step) {
  const ResolvedOperands at = Resolve({x});
  if (at.graph == nullptr) return {};
  const Value& v = at.values[0];
  const Type type = v.type();
  if (!IsFloat(type.dtype))
    return Fail(at, "dropout", "takes f32, f64 or bf16, got " + type.ToString() + ".");
  if (!(rate >= 0 && rate < 1)) return Fail(at, "dropout", fmt::format("rate={} is not in [0, 1).", rate));
  const LocationScope scope(*at.graph, at.location);
  Value keep = RandomBernoulli(*at.graph, {BOOL, type.shape}, seed, stream, 1 - rate, step);
  // In bf16 the factor itself would be off by up to 0.4%, for all elements alike.
  const DType dtype = type.dtype == BF16 ? F32 : type.dtype;
  Value kept = Select(keep, Mul(dtype == type.dtype ? v : Cast(v, dtype), 1 / (1 - rate)), 0.0);
  return dtype == type.dtype ? kept : Cast(kept, type.dtype);
}

}  // namespace meshwork
