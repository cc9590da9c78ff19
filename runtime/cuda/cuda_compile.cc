#ifdef MESHWORK_HAVE_CUDA
#include "meshwork/runtime/cuda/cuda_compile.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/runtime/cuda/code_cache.h"

namespace meshwork {
namespace {

absl::Status NvrtcStatus(const CudaApi& api, nvrtcResult result, const CudaSource& source,
                         std::string_view what) {
  if (result == NVRTC_SUCCESS) return absl::OkStatus();
  const std::string message = fmt::format("NVRTC {}: {}: {}: {}.", CudaVersionToString(api.nvrtc_version),
                                          source.name, what, api.nvrtcGetErrorString(result));
  if (result == NVRTC_ERROR_OUT_OF_MEMORY) return absl::ResourceExhaustedError(message);
  return absl::InternalError(message);
}

class NvrtcProgram {
 public:
  explicit NvrtcProgram(const CudaApi& api) : api_(api) {}
  NvrtcProgram(const NvrtcProgram&) = delete;
  NvrtcProgram& operator=(const NvrtcProgram&) = delete;
  ~NvrtcProgram() {
    if (handle != nullptr) api_.nvrtcDestroyProgram(&handle);
  }

  nvrtcProgram handle = nullptr;

 private:
  const CudaApi& api_;
};

// `size` and `get`: nvrtcGetCUBINSize and nvrtcGetCUBIN, and others alike.
template <typename Size, typename Get>
absl::StatusOr<std::string> Read(const CudaApi& api, nvrtcProgram program, const CudaSource& source,
                                 std::string_view what, Size size, Get get) {
  size_t bytes = 0;
  MESHWORK_RETURN_IF_ERROR(NvrtcStatus(api, size(program, &bytes), source, what));
  std::string text(bytes, '\0');
  MESHWORK_RETURN_IF_ERROR(NvrtcStatus(api, get(program, text.data()), source, what));
  return text;
}

// "   7 | x[i] = y;" for each line.
std::string Numbered(const std::string& text) {
  std::string numbered;
  int number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    numbered += fmt::format("\n{:4} | {}", ++number, text.substr(at, end - at));
    at = end + 1;
  }
  return numbered;
}

struct Target {
  std::string option;
  bool is_ptx = false;
};

absl::StatusOr<Target> TargetFor(const CudaApi& api, int architecture, const CudaSource& source) {
  int count = 0;
  MESHWORK_RETURN_IF_ERROR(
      NvrtcStatus(api, api.nvrtcGetNumSupportedArchs(&count), source, "asking for its architectures"));
  std::vector<int> known(static_cast<size_t>(count));
  MESHWORK_RETURN_IF_ERROR(
      NvrtcStatus(api, api.nvrtcGetSupportedArchs(known.data()), source, "asking for its architectures"));
  std::sort(known.begin(), known.end());
  const auto newer = std::upper_bound(known.begin(), known.end(), architecture);
  if (newer == known.begin())
    return absl::FailedPreconditionError(fmt::format(
        "NVRTC {}: {}: a GPU of architecture sm_{} is older than all that it compiles for{}; install an older NVRTC, or "
        "choose another GPU.",
        CudaVersionToString(api.nvrtc_version), source.name, architecture,
        known.empty() ? "" : fmt::format(", the first of which is sm_{}", known.front())));
  const int nearest = *(newer - 1);
  if (nearest == architecture) return Target{fmt::format("--gpu-architecture=sm_{}", nearest)};
  return Target{fmt::format("--gpu-architecture=compute_{}", nearest), /*is_ptx=*/true};
}

absl::StatusOr<std::string> CompileNow(const CudaApi& api, int architecture, const CudaSource& source) {
  MESHWORK_ASSIGN_OR_RETURN(const Target target, TargetFor(api, architecture, source));
  NvrtcProgram program(api);
  MESHWORK_RETURN_IF_ERROR(NvrtcStatus(
      api,
      api.nvrtcCreateProgram(&program.handle, source.text.c_str(), source.name.c_str(), 0, nullptr, nullptr),
      source, "reading the source"));
  std::vector<const char*> options = {target.option.c_str(), "--std=c++17"};
  for (const std::string& option : source.options) options.push_back(option.c_str());
  const nvrtcResult result =
      api.nvrtcCompileProgram(program.handle, static_cast<int>(options.size()), options.data());
  if (result == NVRTC_ERROR_COMPILATION || result == NVRTC_ERROR_INVALID_OPTION) {
    MESHWORK_ASSIGN_OR_RETURN(std::string log, Read(api, program.handle, source, "reading the log",
                                                    api.nvrtcGetProgramLogSize, api.nvrtcGetProgramLog));
    log.erase(std::find(log.begin(), log.end(), '\0'), log.end());
    while (log.ends_with('\n')) log.pop_back();
    return InvalidArgument("NVRTC {}: {} does not compile for sm_{}:\n{}\nThe source:{}",
                           CudaVersionToString(api.nvrtc_version), source.name, architecture, log,
                           Numbered(source.text));
  }
  MESHWORK_RETURN_IF_ERROR(NvrtcStatus(api, result, source, "compiling"));
  if (target.is_ptx)
    return Read(api, program.handle, source, "reading the PTX", api.nvrtcGetPTXSize, api.nvrtcGetPTX);
  return Read(api, program.handle, source, "reading the code", api.nvrtcGetCUBINSize, api.nvrtcGetCUBIN);
}

std::string PathOf(const CudaApi& api, int architecture, const CudaSource& source) {
  return CodePath(api.code_folder, {.nvrtc_version = api.nvrtc_version,
                                    .architecture = architecture,
                                    .options = source.options,
                                    .source = source.text,
                                    .nvrtc_build = api.nvrtc_build});
}

}  // namespace

std::optional<std::string> KeptCuda(const CudaApi& api, int architecture, const CudaSource& source) {
  if (!api.nvrtc_status.ok() || api.code_folder.empty()) return std::nullopt;
  return ReadCode(PathOf(api, architecture, source));
}

absl::StatusOr<std::string> CompileCuda(const CudaApi& api, int architecture, const CudaSource& source) {
  MESHWORK_RETURN_IF_ERROR(api.nvrtc_status);
  if (std::optional<std::string> kept = KeptCuda(api, architecture, source); kept.has_value())
    return *std::move(kept);
  MESHWORK_ASSIGN_OR_RETURN(std::string code, CompileNow(api, architecture, source));
  if (!api.code_folder.empty()) KeepCode(PathOf(api, architecture, source), code);
  return code;
}

}  // namespace meshwork

#endif  // MESHWORK_HAVE_CUDA
