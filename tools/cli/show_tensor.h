// How the commands print tensors.
#pragma once

#include <string>

#include "meshwork/runtime/tensor/tensor.h"

namespace meshwork::tools {

// Type and first elements: "f32[2,3] 0.5, -1, 2, …".
std::string Show(const Tensor& tensor);

}  // namespace meshwork::tools
