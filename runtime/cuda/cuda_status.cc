#ifdef MESHWORK_HAVE_CUDA
#include "meshwork/runtime/cuda/cuda_status.h"

#include "meshwork/base/status.h"

namespace meshwork {
namespace {

absl::StatusCode CodeOf(CUresult result) {
  switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY: return absl::StatusCode::kResourceExhausted;
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_SYSTEM_NOT_READY:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE: return absl::StatusCode::kUnavailable;
    default: return absl::StatusCode::kInternal;
  }
}

}  // namespace

bool LosesContext(CUresult result) {
  switch (result) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED: return true;
    default: return false;
  }
}

std::string ErrorToString(const CudaApi& api, CUresult result) {
  const char *name = nullptr, *text = nullptr;
  if (api.cuGetErrorName(result, &name) != CUDA_SUCCESS || name == nullptr)
    return fmt::format("CUDA error {}", static_cast<int>(result));
  if (api.cuGetErrorString(result, &text) != CUDA_SUCCESS || text == nullptr) return name;
  return fmt::format("{} ({})", name, text);
}

absl::Status CudaStatus(const CudaApi& api, CUresult result, std::string_view where, std::string_view what) {
  if (result == CUDA_SUCCESS) return absl::OkStatus();
  const std::string error = ErrorToString(api, result);
  if (!LosesContext(result))
    return absl::Status(CodeOf(result), fmt::format("{}: {}: {}.", where, what, error));
  return absl::Status(
      CodeOf(result),
      fmt::format(
          "{}: {}: {}. It is an error of what ran on the GPU before; this process cannot use the GPU any more, "
          "so start it again.",
          where, what, error));
}

}  // namespace meshwork

#endif  // MESHWORK_HAVE_CUDA
