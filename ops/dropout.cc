// Dropout, in terms of random_bernoulli.
#include "meshwork/base/status.h"
#include "meshwork/ir/builder.h"
#include "meshwork/ops/ops.h"

namespace meshwork {

Value Dropout(const Operand& x, double rate, int64_t seed, int64_t stream, const Value& step) {
  const ResolvedOperands at = Resolve({x});
  if (at.graph == nullptr) return {};
  const Value& v = at.values[0];
  const Type type = v.type();
  if (!IsFloat(type.dtype)) {
    RecordMistake(at, "dropout", "takes f32, f64 or bf16, got {}; cast it.", type.ToString());
    return {};
  }
  if (!(rate >= 0 && rate < 1)) {
    RecordMistake(
        at, "dropout",
        "rate={} is not in [0, 1); it is the share of the elements that become 0, give for example 0.1.",
        rate);
    return {};
  }
  const LocationScope scope(*at.graph, at.location);
  Value keep = RandomBernoulli(*at.graph, {BOOL, type.shape}, seed, stream, 1 - rate, step);
  // In bf16 the factor itself would be off by up to 0.4%, for all elements alike.
  const DType dtype = WideDType(type.dtype);
  Value kept = Select(keep, Mul(dtype == type.dtype ? v : Cast(v, dtype), 1 / (1 - rate)), 0.0);
  return dtype == type.dtype ? kept : Cast(kept, type.dtype);
}

}  // namespace meshwork
