#ifdef MESHWORK_HAVE_CUDA
#include "meshwork/runtime/cuda/cuda_memory.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/runtime/cuda/cuda_buffer.h"
#include "meshwork/runtime/cuda/host_copier.h"

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
    return Copy(box, size, [&](int64_t piece) -> absl::Status {
      for (int64_t begin = 0, number = 0; begin < box.elements(); begin += piece, ++number) {
        const Half& half = halves_[number % 2];
        if (number >= 2) MESHWORK_RETURN_IF_ERROR(half.copied->Synchronize());
        MESHWORK_RETURN_IF_ERROR(
            UploadPiece(box, size, host, to, begin, std::min(begin + piece, box.elements()), half.data));
        if (begin + 2 * piece < box.elements()) MESHWORK_RETURN_IF_ERROR(half.copied->Record(*stream_));
      }
      return absl::OkStatus();
    });
  }

  // Each piece is on its way while the one before it is copied out of the staging memory.
  absl::Status Download(const BoxCopy& box, int64_t size, const std::byte* from, std::byte* host) override {
    return Copy(box, size, [&](int64_t piece) -> absl::Status {
      for (int64_t begin = 0, number = 0; begin < box.elements() + piece; begin += piece, ++number) {
        if (begin < box.elements()) {
          const Half& half = halves_[number % 2];
          MESHWORK_RETURN_IF_ERROR(
              DownloadPiece(box, size, from, begin, std::min(begin + piece, box.elements()), half.data));
          MESHWORK_RETURN_IF_ERROR(half.copied->Record(*stream_));
        }
        if (number == 0) continue;
        const Half& before = halves_[(number - 1) % 2];
        MESHWORK_RETURN_IF_ERROR(before.copied->Synchronize());
        CopyOut(box, size, before.data, begin - piece, std::min(begin, box.elements()), host);
      }
      return absl::OkStatus();
    });
  }

 private:
  // Half of the staging memory.
  struct Half {
    std::byte* data = nullptr;
    std::unique_ptr<const CudaEvent> copied;
  };

  static CUdeviceptr AddressOf(const std::byte* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

  static void Append(std::vector<DeviceRun>& runs, int64_t offset, int64_t count) {
    if (!runs.empty() && runs.back().offset + runs.back().count == offset) runs.back().count += count;
    else runs.push_back({offset, count});
  }

  // Calls move(piece), with the number of elements that fit into a half. Waits for all copies, even if it fails, as
  // they use the staging memory.
  template <typename F>
  absl::Status Copy(const BoxCopy& box, int64_t size, F&& move) {
    // In a child of a fork the mutex may be locked for ever.
    MESHWORK_RETURN_IF_ERROR(CudaContext::Scope(stream_->context()).status());
    if (box.elements() == 0) return absl::OkStatus();
    const std::lock_guard lock(mutex_);
    const int64_t piece = std::max<int64_t>(options_.staging_bytes / 2 / size, 1);
    MESHWORK_RETURN_IF_ERROR(Reserve(piece * size));
    const absl::Status status = move(piece);
    const absl::Status waited = stream_->Drain();
    return status.ok() ? waited : status;
  }

  // `bytes`: of a half.
  absl::Status Reserve(int64_t bytes) {
    for (Half& half : halves_) {
      if (half.copied != nullptr) continue;
      MESHWORK_ASSIGN_OR_RETURN(half.copied, CudaEvent::Create(stream_->shared_context()));
    }
    if (staging_.bytes() < 2 * bytes) {
      MESHWORK_ASSIGN_OR_RETURN(staging_, PinnedBuffer::Allocate(stream_->shared_context(), 2 * bytes));
    }
    halves_[0].data = staging_.data();
    halves_[1].data = staging_.data() + bytes;
    return absl::OkStatus();
  }

  absl::Status UploadPiece(const BoxCopy& box, int64_t size, const std::byte* host, std::byte* to,
                           int64_t begin, int64_t end, std::byte* staged) {
    if (box.contiguous()) {
      const CUdeviceptr device = AddressOf(to + (box.to_offset() + begin) * size);
      const HostCopy copy{staged, host + (box.from_offset() + begin) * size, (end - begin) * size};
      return copier_.Stage({&copy, 1}, [&](size_t, int64_t first, int64_t bytes) {
        return CopyToDevice(*stream_, device + static_cast<CUdeviceptr>(first), staged + first, bytes);
      });
    }
    std::vector<DeviceRun> runs;
    std::byte* at = staged;
    box.ForRuns(begin, end, [&](int64_t from, int64_t offset, int64_t count) {
      std::memcpy(at, host + from * size, static_cast<size_t>(count * size));
      at += count * size;
      Append(runs, offset, count);
    });
    for (const DeviceRun& run : runs) {
      MESHWORK_RETURN_IF_ERROR(
          CopyToDevice(*stream_, AddressOf(to + run.offset * size), staged, run.count * size));
      staged += run.count * size;
    }
    return absl::OkStatus();
  }

  absl::Status DownloadPiece(const BoxCopy& box, int64_t size, const std::byte* from, int64_t begin,
                             int64_t end, std::byte* staged) {
    std::vector<DeviceRun> runs;
    box.ForRuns(begin, end, [&](int64_t offset, int64_t, int64_t count) { Append(runs, offset, count); });
    for (const DeviceRun& run : runs) {
      MESHWORK_RETURN_IF_ERROR(
          CopyToHost(*stream_, staged, AddressOf(from + run.offset * size), run.count * size));
      staged += run.count * size;
    }
    return absl::OkStatus();
  }

  void CopyOut(const BoxCopy& box, int64_t size, const std::byte* staged, int64_t begin, int64_t end,
               std::byte* host) {
    if (box.contiguous()) {
      const HostCopy copy{host + (box.to_offset() + begin) * size, staged, (end - begin) * size};
      return copier_.Copy({&copy, 1});
    }
    box.ForRuns(begin, end, [&](int64_t, int64_t to, int64_t count) {
      std::memcpy(host + to * size, staged, static_cast<size_t>(count * size));
      staged += count * size;
    });
  }

  const std::shared_ptr<const CudaStream> stream_;
  const CudaMemoryOptions options_;
  const std::string name_;
  std::mutex mutex_;  // of the members that follow
  PinnedBuffer staging_;
  std::array<Half, 2> halves_;
  HostCopier copier_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<Memory>> MakeCudaMemory(std::shared_ptr<const CudaContext> context,
                                                       const CudaMemoryOptions& options) {
  MESHWORK_ASSIGN_OR_RETURN(std::shared_ptr<const CudaStream> stream, CudaStream::Create(std::move(context)));
  return std::make_shared<CudaMemory>(std::move(stream), options);
}

}  // namespace meshwork

#endif  // MESHWORK_HAVE_CUDA
