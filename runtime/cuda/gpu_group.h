// How the GPUs of a program's domains find each other, when a step is prepared.
//
// Each domain says what its GPU is and what it has; all hear the same, so that all decide alike: whether they fit together,
// and whether NCCL carries their data or the process does (runtime/cuda/cuda_remotes.h). Thread-safe.
#pragma once

#include <memory>
#include <mutex>

#include "absl/status/statusor.h"
#include "meshwork/runtime/cuda/cuda_backend.h"
#include "meshwork/runtime/cuda/cuda_context.h"
#include "meshwork/runtime/cuda/cuda_remotes.h"
#include "meshwork/runtime/cuda/nccl_group.h"
#include "meshwork/runtime/transport.h"

namespace meshwork {

class GpuGroups {
 public:
  explicit GpuGroups(const CudaBackendOptions& options) : options_(options) {}

  // For a step of this domain on the GPU of `context`. All domains call it. `needs_nccl`: the step has what NCCL
  // alone does, in all domains. Errors, in all domains: GPUs of several architectures; NCCL is needed or asked for and cannot be
  // used. Besides, those of Transport::AllGather, and of NcclGroup::Join.
  absl::StatusOr<std::unique_ptr<CudaRemotes>> Join(const std::shared_ptr<const CudaContext>& context,
                                                    Transport& transport, bool needs_nccl);

 private:
  std::shared_ptr<NcclGroup> Last();

  const CudaBackendOptions options_;
  std::mutex mutex_;  // of the group
  // Of steps that were prepared before, if one of them is still there: it serves the next one, too.
  std::weak_ptr<NcclGroup> last_;
};

}  // namespace meshwork
