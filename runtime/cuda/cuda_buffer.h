// Memory of a GPU, pinned memory of the process, and copies between them.
//
//   MESHWORK_ASSIGN_OR_RETURN(const CudaBuffer x, CudaBuffer::Allocate(stream, 4096));
//   MESHWORK_ASSIGN_OR_RETURN(const PinnedBuffer host, PinnedBuffer::Allocate(context, 4096));
//   MESHWORK_RETURN_IF_ERROR(CopyToDevice(*stream, x.address(), host.data(), 4096));
//
// A copy begins when the stream reaches it: until then both sides must be left alone. The copied data is there when the
// stream has been waited for. Copies are asynchronous for pinned memory; for other memory of the process the driver may
// wait. Thread-safe for different buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/runtime/cuda/cuda_stream.h"

namespace meshwork {

// Memory of the stream-ordered allocator. Its contents are undefined at first.
class CudaBuffer {
 public:
  CudaBuffer() = default;
  CudaBuffer(CudaBuffer&& other) noexcept;
  CudaBuffer& operator=(CudaBuffer&& other) noexcept;
  // Frees the memory in the order of `stream`. Work on other streams that uses it must come before, by events.
  ~CudaBuffer();

  // At least 256-byte aligned. Work on other streams may use it after what `stream` has now, by an event or a wait.
  // `bytes` may be 0: then address() is 0. Errors: the GPU has not so much memory (RESOURCE_EXHAUSTED), which says how
  // much is free; the stream is capturing. REQUIRES: bytes >= 0.
  static absl::StatusOr<CudaBuffer> Allocate(std::shared_ptr<const CudaStream> stream, int64_t bytes);

  CUdeviceptr address() const { return address_; }
  int64_t bytes() const { return bytes_; }

 private:
  void Free();

  std::shared_ptr<const CudaStream> stream_;
  CUdeviceptr address_ = 0;
  int64_t bytes_ = 0;
};

// Memory of the process that GPUs read and write themselves. Its contents are undefined at first.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  PinnedBuffer(PinnedBuffer&& other) noexcept;
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept;
  // REQUIRES: no work that uses it is left on any stream.
  ~PinnedBuffer();

  // For all GPUs. `bytes` may be 0: then data() is null. Error: the system has not so much memory to pin.
  // REQUIRES: bytes >= 0.
  static absl::StatusOr<PinnedBuffer> Allocate(std::shared_ptr<const CudaContext> context, int64_t bytes);

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  void Free();

  std::shared_ptr<const CudaContext> context_;
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

// Puts a copy on the stream, of memory of the stream's GPU. Does nothing for 0 bytes.
absl::Status CopyToDevice(const CudaStream& stream, CUdeviceptr to, const void* from, int64_t bytes);
absl::Status CopyToHost(const CudaStream& stream, void* to, CUdeviceptr from, int64_t bytes);
absl::Status CopyOnDevice(const CudaStream& stream, CUdeviceptr to, CUdeviceptr from, int64_t bytes);
// From memory of the GPU of `from_context` to that of `to_context`, on a stream of either.
absl::Status CopyBetweenDevices(const CudaStream& stream, const CudaContext& to_context, CUdeviceptr to,
                                const CudaContext& from_context, CUdeviceptr from, int64_t bytes);
absl::Status Fill(const CudaStream& stream, CUdeviceptr to, std::byte value, int64_t bytes);

}  // namespace meshwork
