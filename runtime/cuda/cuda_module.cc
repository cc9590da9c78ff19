#ifdef MESHWORK_HAVE_CUDA
#include "meshwork/runtime/cuda/cuda_module.h"

#include <utility>

#include "meshwork/base/status.h"

namespace meshwork {
namespace {

std::string KernelSizeToString(const KernelSize& size) {
  return fmt::format("{}x{}x{}", size.x, size.y, size.z);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const CudaModule>> CudaModule::Compile(
    std::shared_ptr<const CudaContext> context, const CudaSource& source) {
  MESHWORK_ASSIGN_OR_RETURN(const std::string code,
                            CompileCuda(context->api(), context->architecture(), source));
  return Load(std::move(context), source.name, code);
}

absl::StatusOr<std::shared_ptr<const CudaModule>> CudaModule::Load(std::shared_ptr<const CudaContext> context,
                                                                   const std::string& name,
                                                                   const std::string& code) {
  const std::shared_ptr<CudaModule> module(new CudaModule(std::move(context), name));
  const CudaContext& on = module->context();
  const CudaContext::Scope scope(on);
  MESHWORK_RETURN_IF_ERROR(scope.status());
  MESHWORK_RETURN_IF_ERROR(on.ToStatus(on.api().cuModuleLoadData(&module->handle_, code.data()),
                                       fmt::format("loading {} on sm_{}", name, on.architecture())));
  return module;
}

CudaModule::~CudaModule() {
  if (handle_ == nullptr || !context_->is_here()) return;
  const CudaContext::Scope scope(*context_);
  context_->api().cuModuleUnload(handle_);
}

absl::StatusOr<CudaFunction> CudaModule::GetKernel(const std::string& kernel) const {
  const CudaContext::Scope scope(*context_);
  MESHWORK_RETURN_IF_ERROR(scope.status());
  CUfunction function = nullptr;
  const CUresult result = context_->api().cuModuleGetFunction(&function, handle_, kernel.c_str());
  if (result == CUDA_ERROR_NOT_FOUND)
    return absl::NotFoundError(fmt::format("{}: {} has no kernel \"{}\"; declare it extern \"C\" __global__.",
                                           context_->where(), name_, kernel));
  MESHWORK_RETURN_IF_ERROR(context_->ToStatus(result, fmt::format("finding kernel {} of {}", kernel, name_)));
  return CudaFunction(shared_from_this(), kernel, function);
}

absl::Status CudaFunction::Launch(const CudaStream& stream, const LaunchShape& shape,
                                  KernelArguments& arguments) const {
  const CudaContext& context = module_->context();
  const CudaContext::Scope scope(context);
  MESHWORK_RETURN_IF_ERROR(scope.status());
  const auto& [grid, block, shared_bytes] = shape;
  const CUresult result =
      context.api().cuLaunchKernel(handle_, grid.x, grid.y, grid.z, block.x, block.y, block.z, shared_bytes,
                                   stream.handle(), arguments.pointers(), nullptr);
  if (result == CUDA_SUCCESS) return absl::OkStatus();
  return context.ToStatus(
      result, fmt::format("launching kernel {} of {}, grid {}, block {}, {} shared", name_, module_->name(),
                          KernelSizeToString(grid), KernelSizeToString(block), Count(shared_bytes, "byte")));
}

absl::Status CudaFunction::AllowSharedBytes(int bytes) const {
  const CudaContext& context = module_->context();
  const CudaContext::Scope scope(context);
  MESHWORK_RETURN_IF_ERROR(scope.status());
  return context.ToStatus(
      context.api().cuFuncSetAttribute(handle_, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes),
      fmt::format("allowing kernel {} of {} {} of shared memory", name_, module_->name(),
                  Count(bytes, "byte")));
}

}  // namespace meshwork

#endif  // MESHWORK_HAVE_CUDA
