// CudaRemotes carries the data of a step on a GPU to other domains, and from them (RemoteStep,
// runtime/plan/step_plan.h).
//
//                    captured   the way of the data
//   MakeHostRemotes  no         the GPU, pinned memory, the transport, pinned memory, the other GPU
//   NcclRemotes      yes        from GPU to GPU, on a stream of its own (runtime/cuda/nccl_remotes.h)
//
// An operation is prepared once and runs in each step; it may be under way while the stream computes. Errors name it,
// by RemoteSpec::where; those of other domains are passed on as they are. Not thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/runtime/cuda/cuda_context.h"
#include "meshwork/runtime/cuda/cuda_stream.h"
#include "meshwork/runtime/exec/transport.h"
#include "meshwork/runtime/plan/step_plan.h"

namespace meshwork {

class CudaRemotes {
 public:
  virtual ~CudaRemotes() = default;

  // Whether Start and Wait only put work on streams, so that a graph may hold it.
  virtual bool is_captured() const = 0;

  // Returns the operation's number, from 0 on. All domains prepare the same operations in the same order. Errors: those
  // of Transport::Prepare.
  virtual absl::StatusOr<size_t> Prepare(RemoteSpec spec) = 0;
  // The same for sums of all domains. Start and Wait get an address for each. REQUIRES: is_captured.
  virtual absl::StatusOr<size_t> PrepareSums(const std::string& where,
                                             const std::vector<RemoteStep::Sum>& sums) = 0;
  // Allocates memory for all operations, after they are prepared. Errors: there is not enough memory.
  virtual absl::Status Allocate() = 0;

  // Begins operation `number` after the work that is on `compute`. The addresses are on the GPU, one for each part of
  // the spec. Until Wait, nothing on the stream may write what is sent, or touch the memory that receives. REQUIRES:
  // every Start before was waited for, and Allocate has succeeded.
  virtual absl::Status Start(size_t number, const CudaStream& compute, std::span<const CUdeviceptr> sends,
                             std::span<const CUdeviceptr> receives) = 0;
  // Work that is put on `compute` from here on finds the received data at `receives`, and may overwrite what was sent.
  virtual absl::Status Wait(size_t number, const CudaStream& compute,
                            std::span<const CUdeviceptr> receives) = 0;

  // Returns when all work on `compute` is done. Errors: that of the work; another domain is lost or has aborted, and
  // then nothing waits for it any more.
  virtual absl::Status Await(const CudaStream& compute) = 0;
  // Ends all waiting of started operations for other domains, and tells the other domains. No operation may start any
  // more.
  // REQUIRES: !reason.ok().
  virtual void Abort(const absl::Status& reason) = 0;
};

// Carries data by way of host memory. The transport must outlive it.
std::unique_ptr<CudaRemotes> MakeHostRemotes(std::shared_ptr<const CudaContext> context,
                                             Transport& transport);

}  // namespace meshwork
