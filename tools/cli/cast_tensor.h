// Tensors of another dtype.
#pragma once

#include "absl/status/statusor.h"
#include "meshwork/runtime/tensor.h"

namespace meshwork::tools {

// Converts like the op cast: reals become the nearest ones, ties to even. Error: the tensor is too large.
absl::StatusOr<Tensor> CastTensor(const Tensor& tensor, DType dtype);

}  // namespace meshwork::tools
