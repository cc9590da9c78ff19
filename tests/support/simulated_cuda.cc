#include "support/simulated_cuda.h"

#include <map>
#include <utility>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "support/simulated_world.h"

namespace meshwork {
namespace {

struct ErrorText {
  CUresult result;
  const char *name, *text;
};

// The driver's names and texts of errors.
// clang-format off
constexpr ErrorText kErrors[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_DEVICE_UNAVAILABLE, "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable"},
    {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CUDA_ERROR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CUDA_ERROR_NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {CUDA_ERROR_ILLEGAL_STATE, "CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {CUDA_ERROR_CONTEXT_IS_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    {CUDA_ERROR_ECC_UNCORRECTABLE, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"},
    {CUDA_ERROR_ASSERT, "CUDA_ERROR_ASSERT", "device-side assert triggered"},
    {CUDA_ERROR_MISALIGNED_ADDRESS, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
    {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"},
    {CUDA_ERROR_STREAM_CAPTURE_MERGE, "CUDA_ERROR_STREAM_CAPTURE_MERGE", "operation would result in a merge of separate capture sequences"},
    {CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work"},
    {CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "dependency created on uncaptured work in another stream"},
    {CUDA_ERROR_CAPTURED_EVENT, "CUDA_ERROR_CAPTURED_EVENT", "operation not permitted on an event last recorded in a capturing stream"},
    {CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};
// clang-format on

const ErrorText* FindErrorText(CUresult result) {
  for (const ErrorText& error : kErrors)
    if (error.result == result) return &error;
  return nullptr;
}

// The symbols of all libraries, with the versions in their names.
std::map<std::string, void*> SymbolsOf(const CudaApi& api) {
  std::map<std::string, void*> symbols;
#define MESHWORK_SIMULATED_SYMBOL(name) MESHWORK_SIMULATED_SYMBOL_OF(name)
#define MESHWORK_SIMULATED_SYMBOL_OF(name) symbols[#name] = reinterpret_cast<void*>(api.name);
  MESHWORK_CUDA_DRIVER_FUNCTIONS(MESHWORK_SIMULATED_SYMBOL)
  MESHWORK_NVRTC_FUNCTIONS(MESHWORK_SIMULATED_SYMBOL)
  MESHWORK_CUBLAS_FUNCTIONS(MESHWORK_SIMULATED_SYMBOL)
#define MESHWORK_SIMULATED_TYPED_SYMBOL(result, name, parameters) MESHWORK_SIMULATED_SYMBOL_OF(name)
  MESHWORK_CUDNN_FUNCTIONS(MESHWORK_SIMULATED_TYPED_SYMBOL)
  MESHWORK_NCCL_FUNCTIONS(MESHWORK_SIMULATED_TYPED_SYMBOL)
  return symbols;
}

}  // namespace

CUresult SimulatedWorld::cuGetErrorName(CUresult result, const char** name) {
  const ErrorText* const error = FindErrorText(result);
  *name = error == nullptr ? nullptr : error->name;
  return error == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult SimulatedWorld::cuGetErrorString(CUresult result, const char** text) {
  const ErrorText* const error = FindErrorText(result);
  *text = error == nullptr ? nullptr : error->text;
  return error == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

const char* SimulatedWorld::nvrtcGetErrorString(nvrtcResult result) {
  switch (result) {
    case NVRTC_SUCCESS: return "NVRTC_SUCCESS";
    case NVRTC_ERROR_OUT_OF_MEMORY: return "NVRTC_ERROR_OUT_OF_MEMORY";
    case NVRTC_ERROR_INTERNAL_ERROR: return "NVRTC_ERROR_INTERNAL_ERROR";
    default: return "NVRTC_ERROR unknown";
  }
}

std::optional<CUresult> SimulatedWorld::NextFailure(std::string_view name) {
  // Functions that only name errors are not counted as calls, unless the failing function is one of them.
  const bool names_errors = name.find("Error") != std::string_view::npos;
  if (calls_to_failure == 0 || (failing_function.empty() ? names_errors : failing_function != name))
    return std::nullopt;
  if (--calls_to_failure > 0) return std::nullopt;
  failed_call = name;
  failed_call_released = false;
  for (const char* word :
       {"Destroy", "Free", "Unload", "Release", "EndCapture", "PopCurrent", "CommAbort", "GroupEnd"})
    failed_call_released |= name.find(word) != std::string_view::npos;
  return failure;
}

void SimulatedWorld::ReportLeaks() {
  memory.ReportLeaks();
  const auto report = [this](size_t count, const char* what) {
    if (count > 0)
      Find(fmt::format("{} {} left.", Count(static_cast<int64_t>(count), what), count == 1 ? "is" : "are"));
  };
  report(streams_.size(), "stream");
  report(events_.size(), "event");
  report(graphs_.size(), "graph");
  report(execs_.size(), "instantiated graph");
  report(modules_.size(), "module");
  report(programs_.size(), "program of NVRTC");
  report(cublas_handles_.size(), "handle of cuBLASLt");
  report(operations_.size() + layouts_.size() + preferences_.size(), "descriptor of cuBLASLt");
  report(cudnn_handles_.size(), "handle of cuDNN");
  report(cudnn_descriptors_.size(), "descriptor of cuDNN");
  report(comms_.size(), "communicator of NCCL");
  if (work.num_pending() > 0) Find("work is left that waits for other GPUs.");
  for (size_t device = 0; device < contexts_.size(); ++device)
    if (contexts_[device].retained > 0) Find(fmt::format("the context of GPU {} is not released.", device));
}

SimulatedCuda::SimulatedCuda(const SimulatedCudaOptions& options)
    : world_(std::make_unique<SimulatedWorld>(options)) {
  CudaApi& api = world_->api;
#define MESHWORK_SIMULATE(name)                                                                            \
  api.name = [](auto... args) {                                                                            \
    return SimulatedWorld::Get().Enter(#name, [&](SimulatedWorld& world) { return world.name(args...); }); \
  };
  MESHWORK_CUDA_DRIVER_FUNCTIONS(MESHWORK_SIMULATE)
  MESHWORK_NVRTC_FUNCTIONS(MESHWORK_SIMULATE)
  MESHWORK_CUBLAS_FUNCTIONS(MESHWORK_SIMULATE)
#define MESHWORK_SIMULATE_TYPED(result, name, parameters) MESHWORK_SIMULATE(name)
  MESHWORK_CUDNN_FUNCTIONS(MESHWORK_SIMULATE_TYPED)
  MESHWORK_NCCL_FUNCTIONS(MESHWORK_SIMULATE_TYPED)
#undef MESHWORK_SIMULATE_TYPED
#undef MESHWORK_SIMULATE
  api.driver_version = options.driver_version;
  api.nvrtc_version = 13000;
  if (options.has_cublas) api.cublas_version = 130001;
  else api.cublas_status = absl::FailedPreconditionError("CUDA: there is no libcublasLt.so.");
  if (options.has_cudnn) api.cudnn_version = 91900;
  else api.cudnn_status = absl::FailedPreconditionError("CUDA: there is no libcudnn_graph.so.9.");
  if (options.nccl_version >= kOldestNccl) api.nccl_version = options.nccl_version;
  else api.nccl_status = absl::FailedPreconditionError("CUDA: there is no libnccl.so.2.");
}

SimulatedCuda::~SimulatedCuda() {
  for (const std::string& finding : TakeLeaks()) ADD_FAILURE() << finding;
}

const CudaApi& SimulatedCuda::api() const { return world_->api; }

LibraryLoader SimulatedCuda::loader() const {
  return {.open = [this](const std::string& file) -> void* {
            const bool is_there = file == "libcuda.so.1" || file == "libnvrtc.so.13" ||
                                  (file == "libcublasLt.so.13" && world_->options.has_cublas) ||
                                  (file == "libcudnn_graph.so.9" && world_->options.has_cudnn) ||
                                  (file == "libnccl.so.2" && world_->options.nccl_version > 0);
            return is_there ? world_.get() : nullptr;
          },
          .find = [symbols = SymbolsOf(world_->api)](void*, const std::string& symbol) -> void* {
            const auto found = symbols.find(symbol);
            return found == symbols.end() ? nullptr : found->second;
          },
          .error = [] { return std::string("there is no such file"); }};
}

void SimulatedCuda::FailCall(std::string_view function, int64_t nth, CUresult result) {
  const std::lock_guard lock(world_->mutex);
  world_->failing_function = function;
  world_->calls_to_failure = nth;
  world_->failure = result;
  world_->failed_call.clear();
}

void SimulatedCuda::FailAnyCall(int64_t nth, CUresult result) { FailCall("", nth, result); }

void SimulatedCuda::FailWork(int64_t nth, CUresult result) {
  const std::lock_guard lock(world_->mutex);
  world_->work_to_failure = nth;
  world_->work_failure = result;
}

std::string SimulatedCuda::failed_call() const {
  const std::lock_guard lock(world_->mutex);
  return world_->failed_call;
}

bool SimulatedCuda::failed_call_released() const {
  const std::lock_guard lock(world_->mutex);
  return world_->failed_call_released;
}

int64_t SimulatedCuda::BytesInUse(int ordinal) const {
  const std::lock_guard lock(world_->mutex);
  return world_->memory.bytes_in_use(ordinal);
}

int64_t SimulatedCuda::num_pending() const {
  const std::lock_guard lock(world_->mutex);
  return world_->work.num_pending();
}

int64_t SimulatedCuda::num_products() const {
  const std::lock_guard lock(world_->mutex);
  return world_->num_products;
}

int64_t SimulatedCuda::num_convolutions() const {
  const std::lock_guard lock(world_->mutex);
  return world_->num_convolutions;
}

int64_t SimulatedCuda::num_exchanges() const {
  const std::lock_guard lock(world_->mutex);
  return world_->num_exchanges;
}

int64_t SimulatedCuda::num_sums() const {
  const std::lock_guard lock(world_->mutex);
  return world_->num_sums;
}

void SimulatedCuda::LoseRank(int rank) {
  const std::lock_guard lock(world_->mutex);
  world_->lost_rank = rank;
}

std::string SimulatedCuda::kernel_error() const {
  const std::lock_guard lock(world_->mutex);
  return world_->kernel_error;
}

std::vector<std::string> SimulatedCuda::TakeFindings() {
  const std::lock_guard lock(world_->mutex);
  world_->work.DoAll();
  return std::exchange(world_->findings, {});
}

std::vector<std::string> SimulatedCuda::TakeLeaks() {
  const std::lock_guard lock(world_->mutex);
  world_->work.DoAll();
  world_->ReportLeaks();
  return std::exchange(world_->findings, {});
}

}  // namespace meshwork
