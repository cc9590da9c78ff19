#ifdef MESHWORK_HAVE_CUDA
#include "meshwork/runtime/cuda/cuda_functions.h"

#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/ops/kernels/cuda/cuda_kernel.h"
#include "meshwork/runtime/cuda/compile_kernels.h"

namespace meshwork {

absl::StatusOr<CudaFunctions> CudaFunctions::Compile(const std::shared_ptr<const CudaContext>& context,
                                                     const std::string& name, const CudaKernels& kernels) {
  CudaFunctions made;
  MESHWORK_ASSIGN_OR_RETURN(const KernelCodes codes,
                            CompileKernels(context->api(), context->architecture(), name, kernels.all()));
  for (size_t k = 0; k < codes.kernels.size(); ++k) {
    const CudaKernel& kernel = kernels.all()[k];
    MESHWORK_ASSIGN_OR_RETURN(const std::shared_ptr<const CudaModule> module,
                              CudaModule::Load(context, codes.kernels[k].name, codes.kernels[k].code));
    MESHWORK_ASSIGN_OR_RETURN(CudaFunction function, module->GetKernel(kernel.name));
    if (kernel.shared_bytes > 0)
      MESHWORK_RETURN_IF_ERROR(function.AllowSharedBytes(static_cast<int>(kernel.shared_bytes)));
    made.loaded_.push_back({std::move(function), static_cast<unsigned>(kernel.threads),
                            static_cast<unsigned>(kernel.shared_bytes), kernel.alignment});
  }
  return made;
}

void CudaFunctions::CheckAlignment(size_t kernel, CUdeviceptr address) const {
  const int64_t alignment = loaded_[kernel].alignment;
  MESHWORK_CHECK(address % static_cast<CUdeviceptr>(alignment) == 0,
                 "address {:#x} for a kernel that needs multiples of {}", address, alignment);
}

absl::Status CudaFunctions::Launch(const CudaStream& stream, size_t kernel, int64_t blocks,
                                   KernelArguments& arguments) const {
  const Loaded& loaded = loaded_[kernel];
  const LaunchShape shape{.grid = {static_cast<unsigned>(blocks)},
                          .block = {loaded.threads},
                          .shared_bytes = loaded.shared_bytes};
  return loaded.function.Launch(stream, shape, arguments);
}

}  // namespace meshwork

#endif  // MESHWORK_HAVE_CUDA
