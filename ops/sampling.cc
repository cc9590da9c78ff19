// Draws of classes, in terms of random_uniform, argmax, sort and cumsum.
#include "meshwork/ops/sampling.h"

#include <limits>

#include "meshwork/base/status.h"
#include "meshwork/ir/builder.h"
#include "meshwork/ops/ops.h"

namespace meshwork {
namespace {

// Whether these are reals [..,c] of at least one class; records a mistake if not.
bool AreLogits(const ResolvedOperands& at, std::string_view op) {
  if (at.graph == nullptr) return false;
  const Type type = at.values[0].type();
  if (IsFloat(type.dtype) && !type.shape.empty() && type.shape.back() > 0) return true;
  RecordMistake(at, op, "logits are {}; they must be f32, f64 or bf16 [..,c] of one class at least.",
                type.ToString());
  return false;
}

// x where it is at least as large as the smallest of `kept`, -∞ elsewhere. x: [..,c], kept: [..,k].
Value NotBelow(const Value& x, const Value& kept) {
  const Value least = ExpandDims(ReduceMin(kept, {-1}), {-1});
  return Select(GreaterEqual(x, least), x, -std::numeric_limits<double>::infinity());
}

}  // namespace

Value RandomCategorical(const Operand& logits, int64_t seed, int64_t stream, const Value& step) {
  const ResolvedOperands at = Resolve({logits});
  if (!AreLogits(at, "random_categorical")) return {};
  const LocationScope scope(*at.graph, at.location);
  const Value& x = at.values[0];
  const DType dtype = WideDType(x.dtype());
  // Uniform numbers of 53 bits: with 24 bits, one class in 2^24 would have the largest possible noise.
  const Value uniform = RandomUniform(*at.graph, {F64, x.shape()}, seed, stream, 0, 1, step);
  const Value noise = Neg(Log(Neg(Log(uniform))));
  return Argmax(Add(dtype == x.dtype() ? x : Cast(x, dtype), dtype == F64 ? noise : Cast(noise, dtype)), -1);
}

Value KeepTopK(const Operand& logits, int64_t k) {
  const ResolvedOperands at = Resolve({logits});
  if (!AreLogits(at, "keep_top_k")) return {};
  const Value& x = at.values[0];
  if (k < 1 || k > x.shape().back()) {
    RecordMistake(at, "keep_top_k", "k={} is not in [1, {}], the number of classes of {}.", k,
                  x.shape().back(), x.type().ToString());
    return {};
  }
  const LocationScope scope(*at.graph, at.location);
  return NotBelow(x, TopK(x, k, -1).values);
}

Value KeepTopP(const Operand& logits, double p) {
  const ResolvedOperands at = Resolve({logits});
  if (!AreLogits(at, "keep_top_p")) return {};
  if (!(p > 0 && p <= 1)) {
    RecordMistake(at, "keep_top_p",
                  "p={} is not in (0, 1]; it is the probability that is kept, give for example 0.9.", p);
    return {};
  }
  const LocationScope scope(*at.graph, at.location);
  const Value& x = at.values[0];
  if (p == 1) return x;  // a sum that is rounded up to 1 would leave out the unlikeliest
  const Value sorted = Sort(x, -1, /*descending=*/true).values;
  const DType dtype = WideDType(x.dtype());
  const Value before =
      Cumsum(Softmax(dtype == x.dtype() ? sorted : Cast(sorted, dtype), -1), -1, /*exclusive=*/true);
  return NotBelow(x, Select(Less(before, p), sorted, std::numeric_limits<double>::infinity()));
}

}  // namespace meshwork
