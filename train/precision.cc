#include "meshwork/train/precision.h"

#include "meshwork/ops/ops.h"

namespace meshwork {

Precision LayerPrecision(const Graph& graph, std::optional<DType> dtype, std::optional<DType> compute) {
  const Precision& all = graph.precision();
  return {.compute = compute.value_or(dtype.value_or(all.compute)),
          .variables = dtype.value_or(all.variables)};
}

Value ToCompute(const Value& x, const Precision& precision) {
  const bool casts = precision.compute != precision.variables && IsFloat(x.dtype());
  return casts ? InDType(x, precision.compute) : x;
}

}  // namespace meshwork
