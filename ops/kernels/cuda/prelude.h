// The functions that kernels call, as text for nvcc, NVRTC and the host's compiler alike: no header is needed.
#pragma once

#include <string_view>

namespace meshwork {

// The files of ops/kernels/cuda/device (CMakeLists.txt): base.cuh, and those that follow kPortableText.
extern const std::string_view kCudaBase, kCudaPrelude;

}  // namespace meshwork
