#ifdef MESHWORK_HAVE_CUDA
#include "meshwork/runtime/cuda/cuda_memory.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/runtime/cuda/cuda_buffer.h"

namespace meshwork {
namespace {

// A run of elements that lie side by side on the GPU. In the staging memory they follow each other.
struct DeviceRun {
  int64_t offset = 0;  // on the GPU, in elements
  int64_t count = 0;
};

class CudaMemory : public Memory {
 public:
  CudaMemory(std::shared_ptr<const CudaStream> stream, const CudaMemoryOptions& options)
      : stream_(std::move(stream)),
        options_(options),
        name_(fmt::format("the memory of {}", stream_->context().where())) {}

  std::shared_ptr<void> Allocate(int64_t bytes) override {
    // A kernel may be given the address even if nothing is behind it.
    absl::StatusOr<CudaBuffer> buffer = CudaBuffer::Allocate(stream_, std::max<int64_t>(bytes, 1));
    if (!buffer.ok()) throw CudaBadAlloc(buffer.status());
    absl::Status status = Fill(*stream_, buffer->address(), std::byte{0}, buffer->bytes());
    if (status.ok()) status = stream_->Synchronize();
    if (!status.ok()) throw CudaBadAlloc(status);
    const auto owner = std::make_shared<CudaBuffer>(std::move(*buffer));
    return {owner, reinterpret_cast<void*>(owner->address())};  // NOLINT: an address of the GPU
  }

  std::string_view name() const override { return name_; }
  bool is_host() const override { return false; }

  absl::Status Upload(const BoxCopy& box, int64_t size, const std::byte* host, std::byte* to) override {
    const std::lock_guard lock(mutex_);
    return InPieces(box, size, [&](int64_t begin, int64_t end) -> absl::Status {
      std::vector<DeviceRun> runs;
      std::byte* staged = staging_.data();
      box.ForRuns(begin, end, [&](int64_t from, int64_t offset, int64_t count) {
        std::memcpy(staged, host + from * size, static_cast<size_t>(count * size));
        staged += count * size;
        Append(runs, offset, count);
      });
      return CopyRuns(runs, size, [&](const DeviceRun& run, std::byte* at) {
        return CopyToDevice(*stream_, AddressOf(to + run.offset * size), at, run.count * size);
      });
    });
  }

  absl::Status Download(const BoxCopy& box, int64_t size, const std::byte* from, std::byte* host) override {
    const std::lock_guard lock(mutex_);
    return InPieces(box, size, [&](int64_t begin, int64_t end) -> absl::Status {
      std::vector<DeviceRun> runs;
      box.ForRuns(begin, end, [&](int64_t offset, int64_t, int64_t count) { Append(runs, offset, count); });
      MESHWORK_RETURN_IF_ERROR(CopyRuns(runs, size, [&](const DeviceRun& run, std::byte* at) {
        return CopyToHost(*stream_, at, AddressOf(from + run.offset * size), run.count * size);
      }));
      const std::byte* staged = staging_.data();
      box.ForRuns(begin, end, [&](int64_t, int64_t to, int64_t count) {
        std::memcpy(host + to * size, staged, static_cast<size_t>(count * size));
        staged += count * size;
      });
      return absl::OkStatus();
    });
  }

 private:
  static CUdeviceptr AddressOf(const std::byte* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

  static void Append(std::vector<DeviceRun>& runs, int64_t offset, int64_t count) {
    if (!runs.empty() && runs.back().offset + runs.back().count == offset) runs.back().count += count;
    else runs.push_back({offset, count});
  }

  // Calls move(begin, end) for ranges of the box's elements that fit into the staging memory.
  template <typename F>
  absl::Status InPieces(const BoxCopy& box, int64_t size, F&& move) {
    if (box.elements() == 0) return absl::OkStatus();
    const int64_t piece = std::max<int64_t>(options_.staging_bytes / size, 1);
    if (staging_.bytes() < piece * size) {
      MESHWORK_ASSIGN_OR_RETURN(staging_, PinnedBuffer::Allocate(stream_->shared_context(), piece * size));
    }
    for (int64_t begin = 0; begin < box.elements(); begin += piece)
      MESHWORK_RETURN_IF_ERROR(move(begin, std::min(begin + piece, box.elements())));
    return absl::OkStatus();
  }

  // Calls copy(run, its place in the staging memory) for each run, and waits for the copies, also if one fails: they
  // use the staging memory.
  template <typename F>
  absl::Status CopyRuns(const std::vector<DeviceRun>& runs, int64_t size, F&& copy) {
    absl::Status status;
    std::byte* at = staging_.data();
    for (const DeviceRun& run : runs) {
      status = copy(run, at);
      if (!status.ok()) break;
      at += run.count * size;
    }
    const absl::Status waited = stream_->Drain();
    return status.ok() ? waited : status;
  }

  const std::shared_ptr<const CudaStream> stream_;
  const CudaMemoryOptions options_;
  const std::string name_;
  std::mutex mutex_;  // of the staging memory
  PinnedBuffer staging_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<Memory>> MakeCudaMemory(std::shared_ptr<const CudaContext> context,
                                                       const CudaMemoryOptions& options) {
  MESHWORK_ASSIGN_OR_RETURN(std::shared_ptr<const CudaStream> stream, CudaStream::Create(std::move(context)));
  return std::make_shared<CudaMemory>(std::move(stream), options);
}

}  // namespace meshwork

#endif  // MESHWORK_HAVE_CUDA
