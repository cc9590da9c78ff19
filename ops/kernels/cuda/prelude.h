// The functions that kernels call, as text for nvcc, NVRTC and the host's compiler alike: no header is needed.
#pragma once

#include <string_view>

namespace meshwork {

extern const std::string_view kCudaPrelude;  // the files of ops/kernels/cuda/device (CMakeLists.txt)

}  // namespace meshwork
