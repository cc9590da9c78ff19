#ifdef MESHWORK_HAVE_CUDA
#include "meshwork/runtime/cuda/compile_kernels.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <numeric>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/runtime/cuda/cuda_compile.h"

namespace meshwork {
namespace {

// Sources that threads compile, one by one in their order.
class Compilation {
 public:
  Compilation(const CudaApi& api, int architecture, std::vector<CudaSource> sources)
      : api_(api), architecture_(architecture), sources_(std::move(sources)), codes_(sources_.size()) {}

  // The code of each source. `step`: its name, for the report.
  absl::StatusOr<std::vector<std::string>> Run(const std::string& step) {
    std::vector<std::jthread> threads;
    const size_t most = std::min(sources_.size(), static_cast<size_t>(std::max(api_.compile_threads, 1)));
    try {
      while (threads.size() < most) threads.emplace_back([this] { Work(); });
    } catch (const std::system_error&) {  // the system has no more
    }
    if (threads.empty()) Work();
    else WaitAndReport(step, threads.size());
    for (std::jthread& thread : threads) thread.join();
    if (thrown_ != nullptr) std::rethrow_exception(thrown_);
    MESHWORK_RETURN_IF_ERROR(failed_);
    return std::move(codes_);
  }

 private:
  // The next source to be compiled; nullopt if there is none, or if one has failed.
  std::optional<size_t> Take() {
    const std::lock_guard lock(mutex_);
    if (next_ == sources_.size() || !failed_.ok() || thrown_ != nullptr) return std::nullopt;
    return next_++;
  }

  void Work() {
    try {
      while (const std::optional<size_t> i = Take()) {
        absl::StatusOr<std::string> code = CompileCuda(api_, architecture_, sources_[*i]);
        const std::lock_guard lock(mutex_);
        ++num_done_;
        if (code.ok()) codes_[*i] = *std::move(code);
        else if (failed_.ok()) failed_ = code.status();
        if (IsOver()) over_.notify_all();
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (thrown_ == nullptr) thrown_ = std::current_exception();
      over_.notify_all();
    }
  }

  bool IsOver() const { return num_done_ == sources_.size() || !failed_.ok() || thrown_ != nullptr; }

  void WaitAndReport(const std::string& step, size_t num_threads) {
    std::unique_lock lock(mutex_);
    if (over_.wait_for(lock, api_.report_after, [this] { return IsOver(); }) || api_.report == nullptr)
      return;
    const size_t num_done = num_done_;
    lock.unlock();
    api_.report(fmt::format(
        "CUDA: {} of \"{}\" {} being compiled for sm_{} by {}; {} done after {:.1f} seconds{}",
        Count(std::ssize(sources_), "kernel"), step, sources_.size() == 1 ? "is" : "are", architecture_,
        Count(static_cast<int64_t>(num_threads), "thread"), num_done,
        std::chrono::duration<double>(api_.report_after).count(),
        api_.code_folder.empty() ? "" : fmt::format("; the next run finds them in {}", api_.code_folder)));
  }

  const CudaApi& api_;
  const int architecture_;
  const std::vector<CudaSource> sources_;
  std::mutex mutex_;  // of all below
  std::condition_variable over_;
  std::vector<std::string> codes_;  // of each source
  size_t next_ = 0, num_done_ = 0;
  absl::Status failed_;                  // the first error
  std::exception_ptr thrown_ = nullptr;  // the first exception
};

// The numbers of the kernels, the slowest to compile first, so that no thread begins a slow one when the others have
// ended.
std::vector<size_t> LongestFirst(std::span<const CudaKernel> kernels) {
  std::vector<size_t> order(kernels.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(kernels[a].is_long, kernels[a].source.size()) >
           std::pair(kernels[b].is_long, kernels[b].source.size());
  });
  return order;
}

// The kernel as a source, with the name that its code gets.
CudaSource SourceOf(const std::string& step, const CudaKernel& kernel) {
  CudaSource source{.name = fmt::format("{}/{}.cu", step, kernel.name),
                    .text = fmt::format("{}\n{}", CudaPrelude(), kernel.source)};
  for (const std::string_view option : kCudaOptions) source.options.emplace_back(option);
  return source;
}

}  // namespace

absl::StatusOr<KernelCodes> CompileKernels(const CudaApi& api, int architecture, const std::string& step,
                                           std::span<const CudaKernel> kernels) {
  KernelCodes made;
  made.kernels.resize(kernels.size());
  std::vector<size_t> missing;
  std::vector<CudaSource> sources;  // of these
  for (const size_t k : LongestFirst(kernels)) {
    CudaSource source = SourceOf(step, kernels[k]);
    made.kernels[k].name = source.name;
    if (std::optional<std::string> code = KeptCuda(api, architecture, source); code.has_value()) {
      made.kernels[k].code = *std::move(code);
    } else {
      missing.push_back(k);
      sources.push_back(std::move(source));
    }
  }
  if (missing.empty()) return made;
  made.num_compiled = std::ssize(missing);
  MESHWORK_ASSIGN_OR_RETURN(std::vector<std::string> codes,
                            Compilation(api, architecture, std::move(sources)).Run(step));
  for (size_t i = 0; i < missing.size(); ++i) made.kernels[missing[i]].code = std::move(codes[i]);
  return made;
}

}  // namespace meshwork

#endif  // MESHWORK_HAVE_CUDA
