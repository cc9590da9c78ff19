// The sizes of a product of matrices, for its row and its kernel.
#pragma once

#include <cstdint>

#include "meshwork/ir/attrs.h"
#include "meshwork/ir/type.h"

namespace meshwork {

// op(a): [m,k], op(b): [k,n], behind their batch dims.
struct MatmulSizes {
  bool transpose_a, transpose_b, sum_batch;
  int64_t m, n, k;
};

// The sizes of a matmul with these attributes. REQUIRES: a and b have at least two dims.
MatmulSizes MatmulSizesOf(const Attrs& attrs, const Shape& a, const Shape& b);

}  // namespace meshwork
