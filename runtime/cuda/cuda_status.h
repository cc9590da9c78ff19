// Errors of CUDA as Status.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "meshwork/runtime/cuda/cuda_api.h"

namespace meshwork {

// "CUDA_ERROR_INVALID_VALUE (invalid argument)".
std::string ErrorToString(const CudaApi& api, CUresult result);

// Whether the error is one of work on the GPU, such as a kernel that read an invalid address. Every later call of the
// context returns it, too.
bool LosesContext(CUresult result);

// OK, or "GPU 0 (NVIDIA H100): copying 64 bytes to it: CUDA_ERROR_… (…).", made of `where` and `what`. The code is
// RESOURCE_EXHAUSTED for lack of memory, UNAVAILABLE for a GPU that failed, and otherwise INTERNAL. If the context is
// lost, the message says that the process can no longer use the GPU.
absl::Status CudaStatus(const CudaApi& api, CUresult result, std::string_view where, std::string_view what);

}  // namespace meshwork
