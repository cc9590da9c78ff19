#include "meshwork/runtime/cuda/gpus.h"

#include "absl/status/status.h"

#ifdef MESHWORK_HAVE_CUDA
#include "meshwork/base/status.h"
#include "meshwork/runtime/cuda/cuda_api.h"
#include "meshwork/runtime/cuda/cuda_context.h"
#endif

namespace meshwork {

absl::Status NoCuda() {
  return absl::UnimplementedError(
      "CUDA: this build of meshwork has none; install the CUDA toolkit, version 12 or later, and build again with "
      "-DMESHWORK_CUDA=ON.");
}

#ifndef MESHWORK_HAVE_CUDA

bool HasCuda() { return false; }

absl::StatusOr<Gpus> ListGpus() { return NoCuda(); }

#else

bool HasCuda() { return true; }

absl::StatusOr<Gpus> ListGpus() {
  MESHWORK_ASSIGN_OR_RETURN(const CudaApi* const api, LoadCudaApi());
  return ListGpus(*api);
}

absl::StatusOr<Gpus> ListGpus(const CudaApi& api) {
  Gpus gpus;
  gpus.driver_version = CudaVersionToString(api.driver_version);
  const auto version_or = [](const absl::Status& status, std::string version) -> absl::StatusOr<std::string> {
    if (!status.ok()) return status;
    return version;
  };
  gpus.cublas_version = version_or(api.cublas_status, CublasVersionToString(api.cublas_version));
  gpus.cudnn_version = version_or(api.cudnn_status, CudnnVersionToString(api.cudnn_version));
  gpus.nccl_version = version_or(api.nccl_status, NcclVersionToString(api.nccl_version));
  MESHWORK_ASSIGN_OR_RETURN(const int count, CountGpus(api));
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    MESHWORK_ASSIGN_OR_RETURN(const std::shared_ptr<const CudaContext> context,
                              CudaContext::Create(api, ordinal));
    MESHWORK_ASSIGN_OR_RETURN(const CudaContext::MemoryInfo memory, context->GetMemoryInfo());
    gpus.gpus.push_back({.ordinal = ordinal,
                         .name = context->name(),
                         .architecture = context->architecture(),
                         .total_bytes = memory.total_bytes,
                         .free_bytes = memory.free_bytes});
  }
  return gpus;
}

#endif

}  // namespace meshwork
