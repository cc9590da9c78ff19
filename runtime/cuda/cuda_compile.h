// CUDA C++ to machine code, by NVRTC.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/runtime/cuda/cuda_api.h"

namespace meshwork {

struct CudaSource {
  std::string name;  // in messages and in the compiler's log: "fused_7.cu"
  std::string text;  // CUDA C++; kernels are extern "C", so that they are found by their names
  std::vector<std::string> options = {};  // of NVRTC, besides the architecture and C++17
};

// Compiles to the input of cuModuleLoadData: machine code for GPUs of `architecture` (90 is sm_90). If NVRTC does not
// know this architecture, PTX of the newest older one, which the driver compiles. Errors: there is no NVRTC; the
// architecture is older than all that it knows (FAILED_PRECONDITION); the source does not compile (INVALID_ARGUMENT),
// with NVRTC's log and the source's lines, numbered. Thread-safe. Needs no GPU.
//
// Code that api.code_folder has is not compiled again, whatever the source's name; code that is compiled is kept there.
absl::StatusOr<std::string> CompileCuda(const CudaApi& api, int architecture, const CudaSource& source);

// The code that CompileCuda would return, if api.code_folder has it; otherwise nothing. Thread-safe.
std::optional<std::string> KeptCuda(const CudaApi& api, int architecture, const CudaSource& source);

}  // namespace meshwork
