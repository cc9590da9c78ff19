#include "meshwork/runtime/cuda/code_backend.h"

#include <sys/mman.h>

#include <algorithm>
#include <charconv>
#include <new>
#include <system_error>
#include <utility>

#include "meshwork/base/io/file.h"
#include "meshwork/base/status.h"
#include "meshwork/ops/kernels/cuda/cuda_kernel.h"
#include "meshwork/runtime/cuda/cuda_fusion.h"
#include "meshwork/runtime/cuda/cuda_level.h"
#include "meshwork/runtime/cuda/gpus.h"
#include "meshwork/runtime/cuda/storage_map.h"

#ifdef MESHWORK_HAVE_CUDA
#include "meshwork/runtime/cuda/compile_kernels.h"
#include "meshwork/runtime/cuda/cuda_api.h"
#endif

namespace meshwork {
namespace {

// Gives addresses without memory behind them. Reading is an error, as nothing has been computed.
class NoMemory : public Memory {
 public:
  std::shared_ptr<void> Allocate(int64_t bytes) override {
    const auto size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
    void* const reserved =
        mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, /*fd=*/-1, /*offset=*/0);
    if (reserved == MAP_FAILED) throw std::bad_alloc();
    return {reserved, [size](void* address) { munmap(address, size); }};
  }
  std::string_view name() const override { return "the memory of a GPU that is not there"; }
  bool is_host() const override { return false; }
  absl::Status Upload(const BoxCopy&, int64_t, const std::byte*, std::byte*) override {
    return absl::OkStatus();
  }
  absl::Status Download(const BoxCopy&, int64_t, const std::byte*, std::byte*) override {
    return absl::FailedPreconditionError(
        "CodeBackend: it compiles kernels and runs none, so that there are no numbers to be read.");
  }
};

class CompiledStep : public PreparedStep {
 public:
  explicit CompiledStep(const ExecutorMemory& memory) : memory_(memory) {}

  absl::Status Run(std::span<const std::byte* const>, std::span<std::byte* const>,
                   std::span<const std::byte* const>) override {
    return absl::OkStatus();
  }
  ExecutorMemory memory() const override { return memory_; }
  meshwork::Profile Profile() const override { return {}; }
  meshwork::Trace Trace() const override { return {}; }
  void ClearProfile() override {}

 private:
  const ExecutorMemory memory_;
};

}  // namespace

absl::StatusOr<int> ParseArchitecture(std::string_view text) {
  constexpr std::string_view kPrefix = "sm_";
  int number = 0;
  const std::string_view digits = text.starts_with(kPrefix) ? text.substr(kPrefix.size()) : "";
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error == std::errc() && end == digits.data() + digits.size() && number >= 10) return number;
  return InvalidArgument(
      "\"{}\" is no architecture of a GPU: that is sm_ and the compute capability without its point, as sm_90 for 9.0.",
      text);
}

int64_t MostSharedBytes(int architecture) {
  constexpr std::pair<int, int64_t> kKibibytes[] = {{70, 96},   {72, 96},   {75, 64},  {80, 163}, {86, 99},
                                                    {87, 163},  {88, 163},  {89, 99},  {90, 227}, {100, 227},
                                                    {103, 227}, {110, 227}, {120, 99}, {121, 99}};
  for (const auto& [known, kibibytes] : kKibibytes)
    if (known == architecture) return kibibytes << 10;
  return int64_t{48} << 10;
}

CodeBackend::CodeBackend(std::shared_ptr<const CudaApi> api, int architecture)
    : api_(std::move(api)), architecture_(architecture), memory_(std::make_shared<NoMemory>()) {}

bool CodeBackend::Has(const OpRow& row) const { return HasCudaKernel(row); }

absl::StatusOr<ExecutorMemory> CodeBackend::PlanMemory(StepPlan plan, const PrepareOptions& options) const {
  return PlanCudaMemory(std::move(plan), options.fuse);
}

std::shared_ptr<CodeBackend> CodeBackend::Create(std::shared_ptr<const CudaApi> api, int architecture) {
  return std::shared_ptr<CodeBackend>(new CodeBackend(std::move(api), architecture));
}

#ifdef MESHWORK_HAVE_CUDA

absl::StatusOr<std::shared_ptr<CodeBackend>> CodeBackend::Create(const CodeBackendOptions& options) {
  MESHWORK_ASSIGN_OR_RETURN(CudaApi api, LoadCudaCompiler(SystemLoader()));
  MESHWORK_RETURN_IF_ERROR(MakeFolders(options.folder));
  MESHWORK_RETURN_IF_ERROR(CheckWritable(options.folder + "/code"));
  SetUpCompiling(api);
  api.code_folder = options.folder;
  return Create(std::make_shared<const CudaApi>(std::move(api)), options.architecture);
}

absl::StatusOr<std::unique_ptr<PreparedStep>> CodeBackend::Prepare(StepPlan plan, std::vector<DTensor>,
                                                                   const PrepareOptions& options) {
  MESHWORK_ASSIGN_OR_RETURN(const ExecutorMemory memory, PlanMemory(plan, options));
  plan = PlanLaunches(std::move(plan), options.fuse);
  CudaKernels kernels;
  // Once without libraries, and once with libraries that take every op that they are offered.
  LevelOptions level{.fuse = options.fuse, .shared_bytes = MostSharedBytes(architecture_)};
  MakeLevel(plan, kernels, level);
  level.take_product = [](auto&&...) { return std::optional<size_t>(0); };
  level.take_convolution = [](auto&&...) { return std::optional<TakenConvolution>(TakenConvolution()); };
  MakeLevel(plan, kernels, level);
  MESHWORK_ASSIGN_OR_RETURN(const KernelCodes codes,
                            CompileKernels(*api_, architecture_, plan.graph->name, kernels.all()));
  counts_.kernels += std::ssize(codes.kernels);
  counts_.compiled += codes.num_compiled;
  return std::make_unique<CompiledStep>(memory);
}

#else

absl::StatusOr<std::shared_ptr<CodeBackend>> CodeBackend::Create(const CodeBackendOptions&) {
  return NoCuda();
}
absl::StatusOr<std::unique_ptr<PreparedStep>> CodeBackend::Prepare(StepPlan, std::vector<DTensor>,
                                                                   const PrepareOptions&) {
  return NoCuda();
}

#endif

}  // namespace meshwork
