#include "meshwork/train/nn/precision.h"

#include "meshwork/ops/ops.h"

namespace meshwork {

Precision LayerPrecision(const Graph& graph, std::optional<DType> dtype, std::optional<DType> compute) {
  const Precision& all = graph.precision();
  return {.compute = compute.value_or(dtype.value_or(all.compute)),
          .variables = dtype.value_or(all.variables)};
}

Value ToCompute(const Value& x, const Precision& precision) {
  const auto is_mixed = [](const Precision& p) { return p.compute != p.variables; };
  const bool casts =
      x.valid() && IsFloat(x.dtype()) && (is_mixed(precision) || is_mixed(x.graph()->precision()));
  return casts ? InDType(x, precision.compute) : x;
}

}  // namespace meshwork
