#include "meshwork/ops/kernels/stack.h"

#include <algorithm>

namespace meshwork {
namespace {

// `own` behind the leading dims, and behind ones up to `rank` dims of its own.
Shape Lead(const Shape& leading, const Shape& own, size_t rank) {
  Shape shape = leading;
  shape.resize(leading.size() + std::max(rank, own.size()) - own.size(), 1);
  shape.insert(shape.end(), own.begin(), own.end());
  return shape;
}

}  // namespace

KernelSpec Stacked(const KernelSpec& spec, const StackDims& dims, size_t rank) {
  KernelSpec stacked = spec;
  Shape results;
  for (const StackDim& dim : dims) {
    stacked.reduced.push_back(dim.reduced.has_value());
    if (!dim.reduced.has_value()) results.push_back(dim.size);
  }
  for (size_t o = 0; o < stacked.operands.size(); ++o) {
    Shape leading;
    for (const StackDim& dim : dims) leading.push_back(dim.varies[o] ? dim.size : 1);
    TensorSpec& operand = stacked.operands[o];
    operand.local.shape = Lead(leading, operand.local.shape, rank);
    operand.global.shape = Lead(Shape(dims.size(), 1), operand.global.shape, rank);
  }
  for (TensorSpec& result : stacked.results) {
    result.local.shape = Lead(results, result.local.shape, 0);
    result.global.shape = Lead(Shape(results.size(), 1), result.global.shape, 0);
  }
  return stacked;
}

bool IsReduced(const StackDims& dims) {
  return std::any_of(dims.begin(), dims.end(), [](const StackDim& dim) { return dim.reduced.has_value(); });
}

std::optional<KernelSpec> StackBroadcast(const KernelSpec& spec, const StackDims& dims) {
  if (IsReduced(dims)) return std::nullopt;
  return Stacked(spec, dims, spec.results[0].local.shape.size());
}

std::vector<int64_t> BehindLeading(const std::vector<int64_t>& dims, size_t leading, bool with_leading) {
  std::vector<int64_t> behind;
  for (size_t d = 0; with_leading && d < leading; ++d) behind.push_back(static_cast<int64_t>(d));
  for (int64_t dim : dims) behind.push_back(dim + static_cast<int64_t>(leading));
  return behind;
}

}  // namespace meshwork
