#ifdef MESHWORK_HAVE_CUDA
#include "meshwork/runtime/cuda/cuda_context.h"

#include <limits>

#include "meshwork/base/status.h"
#include "meshwork/runtime/cuda/cuda_status.h"

namespace meshwork {

absl::StatusOr<int> CountGpus(const CudaApi& api) {
  int count = 0;
  MESHWORK_RETURN_IF_ERROR(CudaStatus(api, api.cuDeviceGetCount(&count), "CUDA", "counting the GPUs"));
  if (count == 0)
    return absl::FailedPreconditionError(
        "CUDA: the driver sees no GPU; see whether nvidia-smi lists one, and what CUDA_VISIBLE_DEVICES says.");
  return count;
}

absl::StatusOr<std::shared_ptr<const CudaContext>> CudaContext::Create(const CudaApi& api, int ordinal) {
  MESHWORK_ASSIGN_OR_RETURN(const int count, CountGpus(api));
  if (ordinal < 0 || ordinal >= count)
    return InvalidArgument("CUDA: there is no GPU {}; this machine has {}, counted from 0.", ordinal,
                           Count(count, "GPU"));
  const std::shared_ptr<CudaContext> context(new CudaContext(api, ordinal));
  MESHWORK_RETURN_IF_ERROR(context->Open());
  return context;
}

absl::Status CudaContext::Open() {
  where_ = fmt::format("GPU {}", ordinal_);
  MESHWORK_RETURN_IF_ERROR(ToStatus(api_.cuDeviceGet(&device_, ordinal_), "opening it"));
  char name[256] = {};
  MESHWORK_RETURN_IF_ERROR(
      ToStatus(api_.cuDeviceGetName(name, sizeof(name) - 1, device_), "asking for its name"));
  name_ = name;
  where_ = fmt::format("GPU {} ({})", ordinal_, name_);
  int major = 0, minor = 0, has_pools = 0;
  for (const auto& [attribute, value] :
       {std::pair(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &major),
        std::pair(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &minor),
        std::pair(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, &has_pools),
        std::pair(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &most_shared_bytes_)}) {
    MESHWORK_RETURN_IF_ERROR(
        ToStatus(api_.cuDeviceGetAttribute(value, attribute, device_), "asking what it can do"));
  }
  architecture_ = 10 * major + minor;
  if (has_pools == 0)
    return absl::FailedPreconditionError(fmt::format(
        "{}: its driver has no memory pools, which meshwork allocates from; choose another GPU.", where_));
  MESHWORK_RETURN_IF_ERROR(ToStatus(api_.cuDevicePrimaryCtxRetain(&handle_, device_), "making a context"));
  CUmemoryPool pool = nullptr;
  MESHWORK_RETURN_IF_ERROR(
      ToStatus(api_.cuDeviceGetDefaultMemPool(&pool, device_), "asking for its memory pool"));
  cuuint64_t kept = std::numeric_limits<cuuint64_t>::max();
  MESHWORK_RETURN_IF_ERROR(
      ToStatus(api_.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &kept),
               "setting up its memory pool"));
  // A GPU that a kernel has lost to this process says so only where it is used.
  return GetMemoryInfo().status();
}

CudaContext::~CudaContext() {
  if (handle_ != nullptr && is_here()) api_.cuDevicePrimaryCtxRelease(device_);
}

absl::StatusOr<CudaContext::MemoryInfo> CudaContext::GetMemoryInfo() const {
  const Scope scope(*this);
  MESHWORK_RETURN_IF_ERROR(scope.status());
  size_t free = 0, total = 0;
  MESHWORK_RETURN_IF_ERROR(ToStatus(api_.cuMemGetInfo(&free, &total), "asking for its free memory"));
  return MemoryInfo{.free_bytes = static_cast<int64_t>(free), .total_bytes = static_cast<int64_t>(total)};
}

absl::StatusOr<std::string> CudaContext::GetPciBusId() const {
  char id[64] = {};
  MESHWORK_RETURN_IF_ERROR(
      ToStatus(api_.cuDeviceGetPCIBusId(id, sizeof(id) - 1, device_), "asking where it sits"));
  return std::string(id);
}

absl::Status CudaContext::Synchronize() const {
  const Scope scope(*this);
  MESHWORK_RETURN_IF_ERROR(scope.status());
  return ToStatus(api_.cuCtxSynchronize(), "waiting for all its work");
}

absl::Status CudaContext::Trim() const {
  CUmemoryPool pool = nullptr;
  MESHWORK_RETURN_IF_ERROR(
      ToStatus(api_.cuDeviceGetDefaultMemPool(&pool, device_), "asking for its memory pool"));
  return ToStatus(api_.cuMemPoolTrimTo(pool, 0), "giving back freed memory");
}

absl::Status CudaContext::ToStatus(CUresult result, std::string_view what) const {
  CUresult before = CUDA_SUCCESS;
  if (LosesContext(result)) lost_.compare_exchange_strong(before, result);
  return CudaStatus(api_, result, where_, what);
}

CudaContext::Scope::Scope(const CudaContext& context)
    : api_(context.api_), status_(context.made_.Check(context.where_)) {
  if (status_.ok())
    status_ = context.ToStatus(api_.cuCtxPushCurrent(context.handle_), "making its context current");
}

CudaContext::Scope::~Scope() {
  CUcontext popped = nullptr;
  if (status_.ok()) api_.cuCtxPopCurrent(&popped);
}

}  // namespace meshwork

#endif  // MESHWORK_HAVE_CUDA
