// What compiles and launches device code in tests, where there is no GPU.
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
  // Runs kernel `name` to its end. `args`: the address of each argument, as cuLaunchKernel takes them. Error: there
  // is no such kernel, or it does what no kernel may.
  virtual absl::Status Launch(const std::string& name, Dim3 grid, Dim3 block, size_t shared_bytes,
                              void** args) = 0;
};

class SimulatedCompiler {
 public:
  virtual ~SimulatedCompiler() = default;
  // Error: the compiler's messages.
  virtual absl::StatusOr<std::unique_ptr<SimulatedKernels>> Compile(const std::string& source) = 0;
};

}  // namespace meshwork
