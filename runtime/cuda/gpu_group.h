// Connects the GPUs of a program's domains when a step is prepared.
//
// Each domain tells all others what its GPU and its NCCL are. So all domains know the same and decide alike whether
// the GPUs fit together, and whether NCCL or the process carries their data (runtime/cuda/cuda_remotes.h).
// Thread-safe.
#pragma once

#include <memory>
#include <mutex>

#include "absl/status/statusor.h"
#include "meshwork/runtime/cuda/cuda_backend.h"
#include "meshwork/runtime/cuda/cuda_context.h"
#include "meshwork/runtime/cuda/cuda_remotes.h"
#include "meshwork/runtime/cuda/nccl_group.h"
#include "meshwork/runtime/exec/transport.h"

namespace meshwork {

class GpuGroups {
 public:
  explicit GpuGroups(const CudaBackendOptions& options) : options_(options) {}

  // For a step of this domain on the GPU of `context`. All domains call it. `needs_nccl`: the step has operations
  // that only NCCL does; the same in all domains. Errors, in all domains: GPUs of several architectures; NCCL is
  // needed or asked for and cannot be used. Further errors: those of Transport::AllGather and NcclGroup::Join.
  absl::StatusOr<std::unique_ptr<CudaRemotes>> Join(const std::shared_ptr<const CudaContext>& context,
                                                    Transport& transport, bool needs_nccl);

 private:
  std::shared_ptr<NcclGroup> Last();

  const CudaBackendOptions options_;
  std::mutex mutex_;  // of the group
  // The group of steps that were prepared before, as long as one of them lives. The next step uses it, too.
  std::weak_ptr<NcclGroup> last_;
};

}  // namespace meshwork
