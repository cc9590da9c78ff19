// Compiles and runs the kernels of a simulated GPU (simulated_cuda.h).
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace meshwork {

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
};

// The kernels of one source.
class SimulatedKernels {
 public:
  virtual ~SimulatedKernels() = default;

  // Whether the source has a kernel of this name; a launch of a kernel that does not exist fails in any case.
  virtual bool Has(const std::string& /*name*/) const { return true; }
  // Runs the kernel to its end. `args`: the arguments' addresses, as cuLaunchKernel takes them; pointers among
  // them are addresses of this process. An error means that the kernel failed: the GPU's context is lost.
  virtual absl::Status Launch(const std::string& name, Dim3 grid, Dim3 block, size_t shared_bytes,
                              void** args) = 0;
};

class SimulatedCompiler {
 public:
  virtual ~SimulatedCompiler() = default;

  // Error: the compiler's log.
  virtual absl::StatusOr<std::unique_ptr<SimulatedKernels>> Compile(const std::string& source) = 0;
};

}  // namespace meshwork
