// Kernels that work along one dim: a tensor is [outer, n, inner], and each of its outer * inner columns of n
// elements is processed by itself.
//
//   f32[8,3,5] along dim 1   outer 8, n 3, inner 5: a column's elements are 5 apart
//   f32[8,3,5] along dim 2   outer 24, n 5, inner 1: columns are rows, and so are the units
#pragma once

#include <algorithm>
#include <optional>
#include <utility>

#include "meshwork/ir/kernel.h"
#include "meshwork/ops/kernels/stack.h"

namespace meshwork {

struct ColumnSizes {
  int64_t outer = 1, n, inner = 1;

  ColumnSizes(const Shape& shape, int64_t dim) : n(shape[dim]) {
    for (int64_t d = 0; d < static_cast<int64_t>(shape.size()); ++d)
      if (d != dim) (d < dim ? outer : inner) *= shape[d];
  }
  int64_t columns() const { return outer * inner; }
};

// Calls f(outer index, first column, end column) for the columns [begin, end), slab by slab.
template <typename F>
void ForEachSlab(const ColumnSizes& sizes, int64_t begin, int64_t end, F&& f) {
  while (begin < end) {
    const int64_t first = begin % sizes.inner, count = std::min(sizes.inner - first, end - begin);
    f(begin / sizes.inner, first, first + count);
    begin += count;
  }
}

// A kernel whose units are the columns of the results. All results, and the first `operands` operands, which
// fall into parts with them, are [outer, any, inner] with the outer and inner of `sizes`.
template <typename Run>
Kernel ColumnKernel(const ColumnSizes& sizes, size_t operands, Run run) {
  Kernel kernel{.run = std::move(run), .units = sizes.columns(), .by_rows = sizes.inner == 1};
  if (kernel.by_rows) kernel.parts.assign(operands, sizes.outer);
  return kernel;
}

// OpRow::stack of rows with an attribute `dim` whose operands have the results' shape, except along this dim.
inline std::optional<KernelSpec> StackAlongDim(const KernelSpec& spec, const StackDims& dims) {
  if (IsReduced(dims)) return std::nullopt;
  // An operand that all instances share would have to be read over and over.
  for (const StackDim& dim : dims)
    if (std::find(dim.varies.begin(), dim.varies.end(), false) != dim.varies.end()) return std::nullopt;
  KernelSpec stacked = Stacked(spec, dims);
  stacked.attrs.Set("dim", spec.attrs.Get<int64_t>("dim") + static_cast<int64_t>(dims.size()));
  return stacked;
}

}  // namespace meshwork
