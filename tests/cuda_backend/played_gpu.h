// A simulated GPU whose kernels a player runs, and the backend on it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/runtime/cuda/cuda_backend.h"
#include "meshwork/runtime/cuda/cuda_context.h"
#include "support/cuda_player.h"
#include "support/simulated_cuda.h"

namespace meshwork {

// Compiles each source once.
class RememberingPlayer : public SimulatedCompiler {
 public:
  explicit RememberingPlayer(uint64_t seed) : seed_(seed) {}

  absl::StatusOr<std::unique_ptr<SimulatedKernels>> Compile(const std::string& source) override {
    std::shared_ptr<PlayedKernels>& kernels = kernels_[source];
    if (kernels == nullptr) {
      absl::StatusOr<std::unique_ptr<PlayedKernels>> played = PlayCuda(source);
      if (!played.ok()) return played.status();
      kernels = *std::move(played);
      kernels->set_seed(seed_);
    }
    return std::make_unique<Shared>(kernels, launches_);
  }
  // How many kernels have run.
  int64_t launches() const { return launches_; }

 private:
  class Shared : public SimulatedKernels {
   public:
    Shared(std::shared_ptr<PlayedKernels> kernels, int64_t& launches)
        : kernels_(std::move(kernels)), launches_(launches) {}
    absl::Status Launch(const std::string& name, Dim3 grid, Dim3 block, size_t shared_bytes,
                        void** args) override {
      ++launches_;
      return kernels_->Launch(name, grid, block, shared_bytes, args);
    }

   private:
    const std::shared_ptr<PlayedKernels> kernels_;
    int64_t& launches_;
  };

  const uint64_t seed_;
  int64_t launches_ = 0;
  std::map<std::string, std::shared_ptr<PlayedKernels>> kernels_;
};

// What is not freed when it ends fails the test. For some seeds there is no cuBLASLt, or no cuDNN, for others one that declines
// every second product, or convolution.
struct PlayedGpu {
  // `count` such GPUs of one machine.
  explicit PlayedGpu(uint64_t seed, const SimulatedGpu& gpu = {}, int64_t count = 1)
      : player(seed),
        cuda({.gpus = std::vector<SimulatedGpu>(static_cast<size_t>(count), gpu),
              .seed = seed,
              .compiler = &player,
              .has_cublas = seed % 4 != 3,
              .declined_products = seed % 4 == 2 ? 2 : 0,
              .has_cudnn = seed % 4 != 2,
              .declined_convolutions = seed % 4 == 3 ? 2 : 0}) {}
  // One GPU with these libraries.
  PlayedGpu(uint64_t seed, SimulatedCudaOptions libraries)
      : player(seed), cuda([&] {
          libraries.seed = seed;
          libraries.compiler = &player;
          return libraries;
        }()) {}

  // The backend; a new one each time.
  absl::StatusOr<std::unique_ptr<CudaBackend>> MakeBackend(int ordinal = 0,
                                                           const CudaBackendOptions& options = {}) {
    absl::StatusOr<std::shared_ptr<const CudaContext>> context = CudaContext::Create(cuda.api(), ordinal);
    if (!context.ok()) return context.status();
    return CudaBackend::Create(*std::move(context), options);
  }

  RememberingPlayer player;
  SimulatedCuda cuda;
};

}  // namespace meshwork
