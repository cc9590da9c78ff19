// Compiles the kernels of a step to machine code, each as a source of its own, by several threads.
//
//   MESHWORK_ASSIGN_OR_RETURN(const KernelCodes codes, CompileKernels(api, 90, "step", kernels));
//   CudaModule::Load(context, codes.kernels[0].name, codes.kernels[0].code)       // kernels[0], and no other
//
// So code is kept on the disk for each kernel (runtime/cuda/code_cache.h): another program with the same kernel finds
// it, and after a change of a program only its new kernels are compiled. The code does not depend on the thread that
// compiles it. CudaApi::compile_threads is the most threads that are started; they have ended when CompileKernels
// returns.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/ops/kernels/cuda/cuda_kernel.h"
#include "meshwork/runtime/cuda/cuda_api.h"

namespace meshwork {

struct KernelCode {
  std::string name;  // in messages, after the step and the kernel: "step/relu_0f3a.cu"
  std::string code;  // as CompileCuda returns it
};

struct KernelCodes {
  std::vector<KernelCode> kernels;  // as they were given
  int64_t num_compiled = 0;         // whose code was not on the disk
};

// `step`: its name, for messages. If compiling takes longer than CudaApi::report_after, CudaApi::report is told so.
// Errors: those of CompileCuda, of one kernel; the threads take no further kernels then. Throws std::bad_alloc.
// Thread-safe. REQUIRES: the kernels have different names; the second kernel of each is among them.
absl::StatusOr<KernelCodes> CompileKernels(const CudaApi& api, int architecture, const std::string& step,
                                           std::span<const CudaKernel> kernels);

}  // namespace meshwork
