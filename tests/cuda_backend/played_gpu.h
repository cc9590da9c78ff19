// A simulated GPU whose kernels a player runs, and the backend on it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/base/status.h"
#include "meshwork/ops/kernels/cuda/cuda_kernel.h"
#include "meshwork/runtime/cuda/cuda_backend.h"
#include "meshwork/runtime/cuda/cuda_context.h"
#include "support/cuda_player.h"
#include "support/simulated_cuda.h"

namespace meshwork {

// Plays each source once. All sources since the last launch are played as one text, with one prelude: the host's
// compiler takes a second for each text, however short.
class RememberingPlayer : public SimulatedCompiler {
 public:
  explicit RememberingPlayer(uint64_t seed) : seed_(seed) {}

  absl::StatusOr<std::unique_ptr<SimulatedKernels>> Compile(const std::string& source) override {
    MESHWORK_CHECK(source.starts_with(CudaPrelude()));
    ++sources_[source];
    if (!played_.contains(source)) waiting_.insert(source);
    return std::make_unique<Kernels>(*this, source);
  }
  // How many kernels have run.
  int64_t launches() const { return launches_; }
  // How often each source was compiled.
  const std::map<std::string, int64_t>& sources() const { return sources_; }

 private:
  class Kernels : public SimulatedKernels {
   public:
    Kernels(RememberingPlayer& player, std::string source) : player_(player), source_(std::move(source)) {}
    absl::Status Launch(const std::string& name, Dim3 grid, Dim3 block, size_t shared_bytes,
                        void** args) override {
      ++player_.launches_;
      MESHWORK_RETURN_IF_ERROR(player_.PlayWaiting());
      return player_.played_.at(source_)->Launch(name, grid, block, shared_bytes, args);
    }

   private:
    RememberingPlayer& player_;
    const std::string source_;
  };

  absl::Status PlayWaiting() {
    if (waiting_.empty()) return absl::OkStatus();
    std::string text(CudaPrelude());
    for (const std::string& source : waiting_) text += source.substr(CudaPrelude().size());
    MESHWORK_ASSIGN_OR_RETURN(const std::shared_ptr<PlayedKernels> kernels, PlayCuda(text));
    kernels->set_seed(seed_);
    for (const std::string& source : waiting_) played_[source] = kernels;
    waiting_.clear();
    return absl::OkStatus();
  }

  const uint64_t seed_;
  int64_t launches_ = 0;
  std::map<std::string, int64_t> sources_;
  std::set<std::string> waiting_;  // sources that are not played yet
  std::map<std::string, std::shared_ptr<PlayedKernels>> played_;
};

// A leak at its end fails the test. Depending on the seed, cuBLASLt or cuDNN is missing, or cuBLASLt or cuDNN declines
// every second product or convolution.
struct PlayedGpu {
  // `count` simulated GPUs of one machine.
  explicit PlayedGpu(uint64_t seed, const SimulatedGpu& gpu = {}, int64_t count = 1)
      : player(seed),
        cuda({.gpus = std::vector<SimulatedGpu>(static_cast<size_t>(count), gpu),
              .seed = seed,
              .compiler = &player,
              .has_cublas = seed % 4 != 3,
              .declined_products = seed % 4 == 2 ? 2 : 0,
              .has_cudnn = seed % 4 != 2,
              .declined_convolutions = seed % 4 == 3 ? 2 : 0}) {}
  // One GPU with these options for its libraries.
  PlayedGpu(uint64_t seed, SimulatedCudaOptions libraries)
      : player(seed), cuda([&] {
          libraries.seed = seed;
          libraries.compiler = &player;
          return libraries;
        }()) {}

  // A new backend on each call.
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
