// What CUDA reports, as a Status.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "meshwork/runtime/cuda/cuda_api.h"

namespace meshwork {

// "CUDA_ERROR_INVALID_VALUE (invalid argument)".
std::string ErrorToString(const CudaApi& api, CUresult result);

// Whether it is an error of what ran on the GPU, as of a kernel that read where nothing is. Every later call of the context
// returns it, too.
bool LosesContext(CUresult result);

// OK, or "GPU 0 (NVIDIA H100): copying 64 bytes to it: CUDA_ERROR_… (…)." of `where` and `what`. No memory is
// RESOURCE_EXHAUSTED, a GPU that failed UNAVAILABLE, all else INTERNAL. One that loses the context says that the
// process can no longer use the GPU.
absl::Status CudaStatus(const CudaApi& api, CUresult result, std::string_view where, std::string_view what);

}  // namespace meshwork
