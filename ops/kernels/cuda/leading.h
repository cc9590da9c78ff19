// The leading dims of a product of matrices, for its kernel and for a library's calls.
#pragma once

#include "meshwork/ir/kernel.h"
#include "meshwork/ir/type.h"
#include "meshwork/ops/kernels/cuda/text.h"

namespace meshwork::cuda {

// Some of the leading dims: their sizes, and the strides in both operands, in elements; 0: broadcast.
struct Leading {
  Shape sizes, a, b;

  // Joins dims that both operands walk alike.
  Walk Merged() const {
    const Shape strides[] = {a, b};
    return Walk::Of(sizes, strides);
  }
};

// The dims whose products are kept, and the dims whose products are summed.
struct LeadingDims {
  Leading kept, summed;
};
// REQUIRES: the spec is one of `matmul`, or of instances of it stacked.
LeadingDims LeadingDimsOf(const KernelSpec& spec);

}  // namespace meshwork::cuda
