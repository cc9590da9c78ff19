// The kernels of a step, compiled and loaded on a GPU, by their numbers among CudaKernels.
//
// Thread-safe once it is made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/runtime/cuda/cuda_api.h"
#include "meshwork/runtime/cuda/cuda_context.h"
#include "meshwork/runtime/cuda/cuda_level.h"
#include "meshwork/runtime/cuda/cuda_module.h"
#include "meshwork/runtime/cuda/cuda_stream.h"
#include "meshwork/runtime/cuda/kernel_arguments.h"

namespace meshwork {

class CudaFunctions {
 public:
  CudaFunctions() = default;
  // `name`: of the step, for messages. Errors: those of CompileKernels and CudaModule::Load.
  static absl::StatusOr<CudaFunctions> Compile(const std::shared_ptr<const CudaContext>& context,
                                               const std::string& name, const CudaKernels& kernels);

  // CHECKs that a pointer for the kernel is aligned as its text takes it to be.
  void CheckAlignment(size_t kernel, CUdeviceptr address) const;
  // Puts the kernel on the stream, with a grid of `blocks` blocks. Errors: those of CudaFunction::Launch.
  absl::Status Launch(const CudaStream& stream, size_t kernel, int64_t blocks,
                      KernelArguments& arguments) const;

 private:
  struct Loaded {
    CudaFunction function;
    unsigned threads, shared_bytes;  // of a block
    int64_t alignment;               // of the pointers
  };
  std::vector<Loaded> loaded_;
};

}  // namespace meshwork
