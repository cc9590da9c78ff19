#include "meshwork/runtime/cuda/cuda_backend.h"

#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/ops/kernels/cuda/cuda_kernel.h"
#include "meshwork/runtime/cuda/gpus.h"
#include "meshwork/runtime/cuda/storage_map.h"
#include "meshwork/runtime/plan/cross_device.h"

#ifdef MESHWORK_HAVE_CUDA
#include "meshwork/runtime/cuda/cuda_memory.h"
#include "meshwork/runtime/cuda/cuda_step.h"
#include "meshwork/runtime/cuda/gpu_group.h"
#endif

namespace meshwork {

bool CudaBackend::Has(const OpRow& row) const { return HasCudaKernel(row); }

absl::StatusOr<ExecutorMemory> CudaBackend::PlanMemory(StepPlan plan, const PrepareOptions& options) const {
  return PlanCudaMemory(std::move(plan), options.fuse);
}

#ifdef MESHWORK_HAVE_CUDA

CudaBackend::CudaBackend(std::shared_ptr<const CudaContext> context, std::shared_ptr<Memory> memory,
                         const CudaBackendOptions& options)
    : context_(std::move(context)),
      memory_(std::move(memory)),
      groups_(std::make_shared<GpuGroups>(options)) {}
CudaBackend::~CudaBackend() = default;

absl::StatusOr<std::unique_ptr<CudaBackend>> CudaBackend::Create(int ordinal,
                                                                 const CudaBackendOptions& options) {
  MESHWORK_ASSIGN_OR_RETURN(const CudaApi* const api, LoadCudaApi());
  MESHWORK_ASSIGN_OR_RETURN(std::shared_ptr<const CudaContext> context, CudaContext::Create(*api, ordinal));
  return Create(std::move(context), options);
}

absl::StatusOr<std::unique_ptr<CudaBackend>> CudaBackend::Create(std::shared_ptr<const CudaContext> context,
                                                                 const CudaBackendOptions& options) {
  MESHWORK_ASSIGN_OR_RETURN(std::shared_ptr<Memory> memory, MakeCudaMemory(context));
  return std::unique_ptr<CudaBackend>(new CudaBackend(std::move(context), std::move(memory), options));
}

absl::StatusOr<std::unique_ptr<PreparedStep>> CudaBackend::Prepare(StepPlan plan,
                                                                   std::vector<DTensor> variables,
                                                                   const PrepareOptions& options) {
  std::unique_ptr<CudaRemotes> remotes;
  if (options.transport != nullptr && options.transport->num_domains() > 1) {
    const bool needs_nccl = options.cross_device_ops != nullptr && options.cross_device_ops->is_nccl();
    MESHWORK_ASSIGN_OR_RETURN(remotes, groups_->Join(context_, *options.transport, needs_nccl));
  }
  return CudaStep::Create(context_, std::move(plan), std::move(variables), options, std::move(remotes));
}

#else

CudaBackend::~CudaBackend() = default;

absl::StatusOr<std::unique_ptr<CudaBackend>> CudaBackend::Create(int, const CudaBackendOptions&) {
  return NoCuda();
}
absl::StatusOr<std::unique_ptr<CudaBackend>> CudaBackend::Create(std::shared_ptr<const CudaContext>,
                                                                 const CudaBackendOptions&) {
  return NoCuda();
}
absl::StatusOr<std::unique_ptr<PreparedStep>> CudaBackend::Prepare(StepPlan, std::vector<DTensor>,
                                                                   const PrepareOptions&) {
  return NoCuda();
}

#endif

}  // namespace meshwork
