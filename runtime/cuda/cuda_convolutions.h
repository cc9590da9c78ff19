// Convolutions by cuDNN.
//
//   CudaConvolutions convolutions(context);
//   MESHWORK_ASSIGN_OR_RETURN(const auto taken, convolutions.Add(convolution, /*alignment=*/16, MatmulPrecision::kFull));
//   MESHWORK_RETURN_IF_ERROR(convolutions.Launch(*stream, taken->number, {x, w, y}, workspace));   // also while it captures
//
// An engine of cuDNN is chosen once, when a convolution is added, by cuDNN's own heuristic. Only engines are chosen
// that give the same numbers in each run and multiply the given numbers themselves: no sums in an open order or in
// less than f32, no Winograd, no Fourier transforms and, for f32 with MatmulPrecision::kFull, no tensor cores. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/base/fork.h"
#include "meshwork/ops/kernels/cuda/cuda_convolution.h"
#include "meshwork/runtime/cuda/cuda_level.h"
#include "meshwork/runtime/cuda/cuda_stream.h"
#include "meshwork/runtime/exec/executor_options.h"

namespace meshwork {

class CudaConvolutions {
 public:
  explicit CudaConvolutions(std::shared_ptr<const CudaContext> context);
  CudaConvolutions(const CudaConvolutions&) = delete;
  CudaConvolutions& operator=(const CudaConvolutions&) = delete;
  // REQUIRES: no convolution of it is left on any stream.
  ~CudaConvolutions();

  // Equal convolutions have one number. `alignment`: of all addresses, in bytes. nullopt: there is no cuDNN
  // that starts, or it has no engine for the convolution. Errors: memory is short, or the CUDA driver fails.
  absl::StatusOr<std::optional<TakenConvolution>> Add(const CudaConvolution& convolution, int64_t alignment,
                                                      MatmulPrecision precision);

  // The filter is as the library takes it: [o, filter.., c / groups].
  struct Addresses {
    CUdeviceptr x = 0, w = 0, y = 0;
  };
  // CHECKs that the addresses are as aligned as Add was told.
  void CheckAlignment(size_t number, const Addresses& addresses) const;
  // Puts the convolution on the stream. The workspace has TakenConvolution::workspace_bytes and is 256-byte aligned.
  // Error: what cuDNN reports. REQUIRES: the addresses are as aligned as Add was told.
  absl::Status Launch(const CudaStream& stream, size_t number, const Addresses& addresses,
                      CUdeviceptr workspace) const;

 private:
  struct Plan;
  class Search;
  struct Entry {
    CudaConvolution convolution;
    int64_t alignment = 1;
    MatmulPrecision precision = MatmulPrecision::kFull;
    UnlessForked<Plan> plan;  // null: cuDNN has no engine
  };

  // Makes the handle. Sets unusable_ if cuDNN does not start, as when one of its libraries is missing. Error: there
  // is not enough memory.
  absl::Status Start(const CudaConvolution& convolution);
  absl::StatusOr<UnlessForked<Plan>> FindPlan(const CudaConvolution& convolution, int64_t alignment,
                                              MatmulPrecision precision);
  absl::Status ToStatus(CudnnStatus status, const CudaConvolution& convolution, std::string_view what) const;

  const std::shared_ptr<const CudaContext> context_;
  absl::Status unusable_;  // why cuDNN makes no convolutions
  CudnnHandle* handle_ = nullptr;
  std::vector<Entry> entries_;
};

}  // namespace meshwork
