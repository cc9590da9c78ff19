// Where the matrices of a product lie that has dims in front of its matrices: batch dims, and instances of devices.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "meshwork/ir/type.h"
#include "meshwork/ops/kernels/blas/gemm.h"

namespace meshwork {

// A dim in front of the matrices: the number of matrices along it, the distance between them in each operand,
// in elements, and whether the products are summed over it.
struct LeadingDim {
  int64_t size, a, b;
  bool summed;
};
using LeadingDims = std::vector<LeadingDim>;  // outer to inner

// The dims of dense `a` and `b` in front of the last `own_a` and `own_b`, which are right-aligned and broadcast.
// is_summed: a predicate of a dim's number.
template <typename IsSummed>
LeadingDims LeadingDimsOf(const Shape& a, size_t own_a, const Shape& b, size_t own_b, IsSummed&& is_summed) {
  const size_t dims_a = a.size() - own_a, dims_b = b.size() - own_b, dims = std::max(dims_a, dims_b);
  LeadingDims leading(dims);
  int64_t dense_a = NumElements(Shape(a.end() - static_cast<int64_t>(own_a), a.end()));
  int64_t dense_b = NumElements(Shape(b.end() - static_cast<int64_t>(own_b), b.end()));
  for (size_t d = dims; d-- > 0;) {
    const int64_t size_a = d + dims_a >= dims ? a[d + dims_a - dims] : 1;
    const int64_t size_b = d + dims_b >= dims ? b[d + dims_b - dims] : 1;
    const int64_t size = size_a == 1 ? size_b : size_a;
    leading[d] = {size, size_a == 1 ? 0 : dense_a, size_b == 1 ? 0 : dense_b, is_summed(d)};
    dense_a *= size_a;
    dense_b *= size_b;
  }
  return leading;
}

// The places of the matrices along the dims, in order.
inline std::vector<GemmTerm> PlacesOf(const LeadingDims& dims) {
  std::vector<GemmTerm> places = {{}};
  for (const LeadingDim& dim : dims) {
    std::vector<GemmTerm> more;
    for (const GemmTerm& outer : places)
      for (int64_t i = 0; i < dim.size; ++i) more.push_back({outer.a + i * dim.a, outer.b + i * dim.b});
    places = std::move(more);
  }
  return places;
}

}  // namespace meshwork
