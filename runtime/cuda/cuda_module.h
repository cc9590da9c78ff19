// Kernels: compiled from CUDA C++ (cuda_compile.h), loaded on a GPU, launched.
//
//   MESHWORK_ASSIGN_OR_RETURN(const auto module, CudaModule::Compile(context, {"negate.cu", R"(
//     extern "C" __global__ void negate(float* x, long n) { … })"}));
//   MESHWORK_ASSIGN_OR_RETURN(const CudaFunction negate, module->GetKernel("negate"));
//   MESHWORK_RETURN_IF_ERROR(negate.Launch(*stream, {.grid = {blocks}, .block = {256}}, arguments));
//
// Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/runtime/cuda/cuda_compile.h"
#include "meshwork/runtime/cuda/cuda_context.h"
#include "meshwork/runtime/cuda/cuda_stream.h"
#include "meshwork/runtime/cuda/kernel_arguments.h"

namespace meshwork {

struct KernelSize {
  unsigned x = 1, y = 1, z = 1;
};

struct LaunchShape {
  KernelSize grid;            // blocks
  KernelSize block;           // threads of each
  unsigned shared_bytes = 0;  // dynamic shared memory of a block
};

class CudaModule;

// Keeps its module loaded.
class CudaFunction {
 public:
  const std::string& name() const { return name_; }

  // Puts the kernel on the stream. The arguments are copied. Errors: the stream is another GPU's; a shape that the GPU
  // cannot run. An error in the kernel itself is returned by the call that waits for it.
  absl::Status Launch(const CudaStream& stream, const LaunchShape& shape, KernelArguments& arguments) const;
  // Allows launches with this much dynamic shared memory. Up to 48 KiB are always allowed.
  absl::Status AllowSharedBytes(int bytes) const;

 private:
  friend class CudaModule;
  CudaFunction(std::shared_ptr<const CudaModule> module, std::string name, CUfunction handle)
      : module_(std::move(module)), name_(std::move(name)), handle_(handle) {}

  std::shared_ptr<const CudaModule> module_;
  std::string name_;
  CUfunction handle_ = nullptr;
};

class CudaModule : public std::enable_shared_from_this<CudaModule> {
 public:
  // Compiles for the GPU's architecture, and loads. Errors: those of CompileCuda and Load.
  static absl::StatusOr<std::shared_ptr<const CudaModule>> Compile(std::shared_ptr<const CudaContext> context,
                                                                   const CudaSource& source);
  // `code` is what CompileCuda returned; `name` is its source's, for messages. Errors: it is for another architecture,
  // or is no code.
  static absl::StatusOr<std::shared_ptr<const CudaModule>> Load(std::shared_ptr<const CudaContext> context,
                                                                const std::string& name,
                                                                const std::string& code);
  CudaModule(const CudaModule&) = delete;
  CudaModule& operator=(const CudaModule&) = delete;
  // REQUIRES: no kernel of it is left on any stream.
  ~CudaModule();

  const CudaContext& context() const { return *context_; }
  const std::string& name() const { return name_; }

  // Error: the module has no such kernel (NOT_FOUND).
  absl::StatusOr<CudaFunction> GetKernel(const std::string& kernel) const;

 private:
  CudaModule(std::shared_ptr<const CudaContext> context, std::string name)
      : context_(std::move(context)), name_(std::move(name)) {}

  const std::shared_ptr<const CudaContext> context_;
  const std::string name_;
  CUmodule handle_ = nullptr;
};

}  // namespace meshwork
