// Plays CUDA kernels on the CPU: compiles their text as C++ with the host's compiler and runs threads as fibers.
//
//   auto kernels = PlayCuda(source).value();
//   kernels->set_seed(2);
//   status = kernels->Launch("add", {4}, {256}, 0, args);
//
// Blocks run one after the other, in an order drawn from the seed; so do the threads of a block between two
// barriers. So a race shows as a difference between seeds. Shared memory holds NaNs when a block begins. It
// is an error if not all threads reach a barrier or a shuffle, or if threads wait at two barriers at once.
//
// cuda_player_device.h has all that the text may use. Not thread-safe. Needs the compiler
// CUDA_PLAYER_COMPILER, a compile definition.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "support/simulated_compiler.h"

namespace meshwork {

class PlayedKernels : public SimulatedKernels {
 public:
  // The order of blocks and threads in the launches that follow.
  virtual void set_seed(uint64_t seed) = 0;
};

// Error: the compiler's messages about the source.
absl::StatusOr<std::unique_ptr<PlayedKernels>> PlayCuda(const std::string& source);

class CudaPlayer : public SimulatedCompiler {
 public:
  explicit CudaPlayer(uint64_t seed) : seed_(seed) {}
  absl::StatusOr<std::unique_ptr<SimulatedKernels>> Compile(const std::string& source) override;

 private:
  uint64_t seed_;
};

// The text as the host's compiler takes it: each kernel gets a function that calls it with an array of the addresses
// of its arguments, `extern __shared__` arrays become pointers.
std::string AsHostSource(const std::string& source);

}  // namespace meshwork
