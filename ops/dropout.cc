// Dropout, in terms of random_bernoulli.
#include <algorithm>
#include <optional>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/ir/builder.h"
#include "meshwork/ops/ops.h"

namespace meshwork {

namespace {

// bool of `shape`: whether each element is kept. `alike_in_rows`: dim 0 is not the rows of x, because all rows share
// the mask. It is then drawn without a place among the rows, so that all parts of a batch draw the same.
Value Mask(Graph& graph, const Shape& shape, bool alike_in_rows, double keep, int64_t seed, int64_t stream,
           const Value& step) {
  const Type type{BOOL, shape};
  if (!alike_in_rows) return RandomBernoulli(graph, type, seed, stream, keep, step);
  std::vector<Value> keys(step.valid() ? 1 : 0, step);
  const std::vector<Value> iterations = graph.random_place().iterations;
  keys.insert(keys.end(), iterations.begin(), iterations.end());
  const Attrs attrs = {
      {"seed", seed}, {"stream", stream}, {"p", keep}, {"dtype", BOOL}, {"shape", ToInts(shape)}};
  return graph.Add("random_bernoulli", keys, attrs, CallSite::Current())[0];
}

}  // namespace

Value StatelessDropout(const Operand& x, double rate, int64_t seed, int64_t stream, const Value& step,
                       const DimList& whole_dims) {
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
  const std::optional<std::vector<int64_t>> whole = CountDims(at, "dropout", whole_dims);
  if (!whole.has_value()) return {};
  Shape drawn;
  std::vector<int64_t> drawn_dims;
  for (int64_t d = 0; d < type.rank(); ++d) {
    if (std::find(whole->begin(), whole->end(), d) != whole->end()) continue;
    drawn.push_back(type.shape[d]);
    drawn_dims.push_back(d);
  }
  const LocationScope scope(*at.graph, at.location);
  const bool alike_in_rows = type.rank() > 0 && (drawn_dims.empty() || drawn_dims[0] != 0);
  Value keep = Mask(*at.graph, drawn, alike_in_rows, 1 - rate, seed, stream, step);
  if (!whole->empty()) keep = BroadcastTo(keep, type.shape, drawn_dims);
  // In bf16 the factor itself would be off by up to 0.4%, for all elements alike.
  const DType dtype = WideDType(type.dtype);
  Value kept = Select(keep, Mul(dtype == type.dtype ? v : Cast(v, dtype), 1 / (1 - rate)), 0.0);
  return dtype == type.dtype ? kept : Cast(kept, type.dtype);
}

}  // namespace meshwork
