#ifdef MESHWORK_HAVE_CUDA
#include "meshwork/runtime/cuda/cuda_api.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>
#include <thread>
#include <vector>

#include "meshwork/base/cores.h"
#include "meshwork/base/log.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/cuda/build_id.h"
#include "meshwork/runtime/cuda/code_cache.h"
#include "meshwork/runtime/cuda/cuda_status.h"

namespace meshwork {
namespace {

constexpr const char* kDriver = "libcuda.so.1";

// A macro's argument is replaced before it is passed on: so Look's text has the name with its version.
#define MESHWORK_CUDA_LOOK(name) MESHWORK_CUDA_LOOK_UP(name)
#define MESHWORK_CUDA_LOOK_UP(name)                                             \
  api.name = reinterpret_cast<decltype(api.name)>(loader.find(library, #name)); \
  if (api.name == nullptr && missing.empty()) missing = #name;

// The name of the first function that the library lacks; "" if it has all.
std::string FillDriver(const LibraryLoader& loader, void* library, CudaApi& api) {
  std::string missing;
  MESHWORK_CUDA_DRIVER_FUNCTIONS(MESHWORK_CUDA_LOOK)
  return missing;
}

std::string FillNvrtc(const LibraryLoader& loader, void* library, CudaApi& api) {
  std::string missing;
  MESHWORK_NVRTC_FUNCTIONS(MESHWORK_CUDA_LOOK)
  return missing;
}

std::string FillCublas(const LibraryLoader& loader, void* library, CudaApi& api) {
  std::string missing;
  MESHWORK_CUBLAS_FUNCTIONS(MESHWORK_CUDA_LOOK)
  return missing;
}

#define MESHWORK_CUDA_TYPED_LOOK(result, name, parameters) MESHWORK_CUDA_LOOK(name)
std::string FillCudnn(const LibraryLoader& loader, void* library, CudaApi& api) {
  std::string missing;
  MESHWORK_CUDNN_FUNCTIONS(MESHWORK_CUDA_TYPED_LOOK)
  return missing;
}

std::string FillNccl(const LibraryLoader& loader, void* library, CudaApi& api) {
  std::string missing;
  MESHWORK_NCCL_FUNCTIONS(MESHWORK_CUDA_TYPED_LOOK)
  return missing;
}

// Whether the environment says that the library is not to be used.
bool IsOff(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && std::string_view(value) == "off";
}

// Files to try for a library whose name has no version of CUDA: where the system looks, then in the toolkit's folder
// of the build.
std::vector<std::string> FilesOfName(const std::string& file) {
  std::vector<std::string> files = {file};
  if (const std::string folder = MESHWORK_CUDA_LIBRARY_DIR; !folder.empty())
    files.push_back(folder + "/" + file);
  return files;
}

// Files to try for a library of the toolkit, the newest version first; of each version, first where the system looks,
// then in the toolkit's folder of the build.
std::vector<std::string> FilesOf(std::string_view library) {
  std::vector<std::string> files;
  for (const int major : {13, 12}) {
    files.push_back(fmt::format("{}.so.{}", library, major));
    if (const std::string folder = MESHWORK_CUDA_LIBRARY_DIR; !folder.empty())
      files.push_back(fmt::format("{}/{}.so.{}", folder, library, major));
  }
  return files;
}

// For the driver of the table, or for any if it has none.
absl::Status LoadNvrtc(const LibraryLoader& loader, CudaApi& api) {
  const bool has_driver = api.driver_version > 0;
  std::string found;  // those that cannot be used
  for (const std::string& file : FilesOf("libnvrtc")) {
    void* const library = loader.open(file);
    if (library == nullptr) continue;
    int major = 0, minor = 0;
    if (!FillNvrtc(loader, library, api).empty() || api.nvrtcVersion(&major, &minor) != NVRTC_SUCCESS) {
      found += fmt::format("; {} cannot be used", file);
    } else if (has_driver && major > api.driver_version / 1000) {
      found += fmt::format("; {} makes code for drivers of CUDA {}.0 or later", file, major);
    } else {
      api.nvrtc_version = 1000 * major + 10 * minor;
      api.nvrtc_build = BuildIdOf(reinterpret_cast<const void*>(api.nvrtcVersion));
      return absl::OkStatus();
    }
  }
  if (!has_driver)
    return absl::FailedPreconditionError(fmt::format(
        "CUDA: there is no libnvrtc.so of CUDA 12 or later{}; install the CUDA toolkit's NVRTC, and have "
        "LD_LIBRARY_PATH name its folder.",
        found));
  return absl::FailedPreconditionError(fmt::format(
      "CUDA: there is no libnvrtc.so of CUDA 12 or later that makes code for this driver of CUDA {}{}; install the CUDA "
      "toolkit's NVRTC of that version, and have LD_LIBRARY_PATH name its folder.",
      CudaVersionToString(api.driver_version), found));
}

absl::Status LoadCublas(const LibraryLoader& loader, CudaApi& api) {
  std::string found;  // those that cannot be used
  for (const std::string& file : FilesOf("libcublasLt")) {
    void* const library = loader.open(file);
    if (library == nullptr) continue;
    if (!FillCublas(loader, library, api).empty()) {
      found += fmt::format("; {} cannot be used", file);
      continue;
    }
    // 130001 is 13.0.1.
    const auto version = static_cast<int>(api.cublasLtGetVersion());
    if (const int major = version / 10000; major > api.driver_version / 1000) {
      found += fmt::format("; {} is for drivers of CUDA {}.0 or later", file, major);
    } else {
      api.cublas_version = version;
      return absl::OkStatus();
    }
  }
  return absl::FailedPreconditionError(fmt::format(
      "CUDA: there is no libcublasLt.so of CUDA 12 or later that fits this driver of CUDA {}{}; install the CUDA toolkit's "
      "cuBLAS of that version, and have LD_LIBRARY_PATH name its folder. Without it products of matrices are slower.",
      CudaVersionToString(api.driver_version), found));
}

// libcudnn.so.9 passes calls on to this library, and aborts the process where it is missing.
absl::Status LoadCudnn(const LibraryLoader& loader, CudaApi& api) {
  if (IsOff("MESHWORK_CUDNN"))
    return absl::FailedPreconditionError(
        "CUDA: the environment says MESHWORK_CUDNN=off, so convolutions are made by kernels of meshwork.");
  std::string found;  // those that cannot be used
  for (const std::string& file : FilesOfName("libcudnn_graph.so.9")) {
    void* const library = loader.open(file);
    if (library == nullptr) continue;
    const std::string missing = FillCudnn(loader, library, api);
    const int version = api.cudnnGetVersion == nullptr ? 0 : static_cast<int>(api.cudnnGetVersion());
    if (version < kOldestCudnn) {
      found += fmt::format("; {} cannot be used", file);
    } else if (!missing.empty()) {
      found += fmt::format("; {} has no function {}", file, missing);
    } else {
      api.cudnn_version = version;
      return absl::OkStatus();
    }
  }
  return absl::FailedPreconditionError(fmt::format(
      "CUDA: there is no libcudnn_graph.so.9{}; install NVIDIA's cuDNN 9, and have LD_LIBRARY_PATH name its folder. Without it "
      "convolutions are slower.",
      found));
}

absl::Status LoadNccl(const LibraryLoader& loader, CudaApi& api) {
  if (IsOff("MESHWORK_NCCL"))
    return absl::FailedPreconditionError(
        "CUDA: the environment says MESHWORK_NCCL=off, so data between GPUs goes through the process.");
  std::string found;  // those that cannot be used
  for (const std::string& file : FilesOfName("libnccl.so.2")) {
    void* const library = loader.open(file);
    if (library == nullptr) continue;
    const std::string missing = FillNccl(loader, library, api);
    int version = 0;
    if (api.ncclGetVersion == nullptr || api.ncclGetVersion(&version) != NcclResult::kSuccess) {
      found += fmt::format("; {} cannot be used", file);
    } else if (version < kOldestNccl) {
      found += fmt::format("; {} is version {}", file, NcclVersionToString(version));
    } else if (!missing.empty()) {
      found += fmt::format("; {} has no function {}", file, missing);
    } else {
      api.nccl_version = version;
      return absl::OkStatus();
    }
  }
  return absl::FailedPreconditionError(fmt::format(
      "CUDA: there is no libnccl.so.2 of version {} or later{}; install NVIDIA's NCCL, and have LD_LIBRARY_PATH name its "
      "folder. Without it data between GPUs goes through the process.",
      NcclVersionToString(kOldestNccl), found));
}

}  // namespace

LibraryLoader SystemLoader() {
  return {.open = [](const std::string& file) { return dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL); },
          .find = [](void* library, const std::string& symbol) { return dlsym(library, symbol.c_str()); },
          .error =
              [] {
                const char* const error = dlerror();
                return std::string(error == nullptr ? "unknown" : error);
              }};
}

std::string CudaVersionToString(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string CublasVersionToString(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::string CudnnVersionToString(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::string NcclVersionToString(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

absl::StatusOr<CudaApi> LoadCudaApi(const LibraryLoader& loader) {
  void* const library = loader.open(kDriver);
  if (library == nullptr)
    return absl::FailedPreconditionError(fmt::format(
        "CUDA: there is no driver: {}; install NVIDIA's driver, version 525 or later, or choose the CPU.",
        loader.error()));
  CudaApi api;
  const std::string missing = FillDriver(loader, library, api);
  if (api.cuDriverGetVersion == nullptr || api.cuDriverGetVersion(&api.driver_version) != CUDA_SUCCESS)
    return absl::FailedPreconditionError(
        fmt::format("CUDA: {} does not say its version; it is not NVIDIA's driver.", kDriver));
  if (api.driver_version < kOldestCudaDriver)
    return absl::FailedPreconditionError(fmt::format(
        "CUDA: the driver is of CUDA {}, and meshwork needs {} or later; install a newer driver, version 525 or later.",
        CudaVersionToString(api.driver_version), CudaVersionToString(kOldestCudaDriver)));
  // The older function, which cuda.h 12.8 replaced, has the same arguments.
  if (api.cuEventElapsedTime == nullptr)
    api.cuEventElapsedTime =
        reinterpret_cast<decltype(api.cuEventElapsedTime)>(loader.find(library, "cuEventElapsedTime"));
  if (!missing.empty() && (!missing.starts_with("cuEventElapsedTime") || api.cuEventElapsedTime == nullptr))
    return absl::FailedPreconditionError(
        fmt::format("CUDA: {} of CUDA {} has no function {}; install the driver anew.", kDriver,
                    CudaVersionToString(api.driver_version), missing));
  if (const CUresult result = api.cuInit(0); result != CUDA_SUCCESS)
    return absl::FailedPreconditionError(fmt::format(
        "CUDA: the driver does not start: {}; nvidia-smi says what it sees.", ErrorToString(api, result)));
  api.nvrtc_status = LoadNvrtc(loader, api);
  api.cublas_status = LoadCublas(loader, api);
  api.cudnn_status = LoadCudnn(loader, api);
  api.nccl_status = LoadNccl(loader, api);
  return api;
}

absl::StatusOr<const CudaApi*> LoadCudaApi() {
  static const auto* const api = [] {
    auto* const loaded = new absl::StatusOr<CudaApi>(LoadCudaApi(SystemLoader()));
    if (loaded->ok()) SetUpCompiling(**loaded);
    return loaded;
  }();
  if (!api->ok()) return api->status();
  return &**api;
}

void ReportMissing(const CudaApi& api, const std::string& library, const absl::Status& why) {
  static std::mutex mutex;
  static auto* const reported = new std::set<std::string>();
  if (api.report == nullptr || why.message().find("the environment says") != std::string::npos) return;
  const std::lock_guard lock(mutex);
  if (reported->insert(library).second) api.report(MessageOf(why));
}

absl::StatusOr<CudaApi> LoadCudaCompiler(const LibraryLoader& loader) {
  CudaApi api;
  MESHWORK_RETURN_IF_ERROR(LoadNvrtc(loader, api));
  return api;
}

void SetUpCompiling(CudaApi& api) {
  api.code_folder = CodeFolder([](const std::string& name) -> std::optional<std::string> {
    const char* const value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  });
  const std::vector<int> cores = UsableCores();
  // Each takes some hundred megabytes.
  constexpr size_t kMostThreads = 32;
  const size_t usable = cores.empty() ? std::thread::hardware_concurrency() : cores.size();
  api.compile_threads = static_cast<int>(std::clamp<size_t>(usable, 1, kMostThreads));
  api.report = [](std::string_view line) { LogText(LogLevel::kWarning, line); };
}

}  // namespace meshwork

#endif  // MESHWORK_HAVE_CUDA
