#ifdef MESHWORK_HAVE_CUDA
#include "meshwork/runtime/cuda/cuda_buffer.h"

#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/runtime/cuda/cuda_status.h"

namespace meshwork {
namespace {

// Calls `enqueue` of the table where the stream's GPU is current. `what`: "copying {} bytes to it".
template <typename F>
absl::Status Enqueue(const CudaStream& stream, int64_t bytes, std::string_view what, F&& enqueue) {
  if (bytes == 0) return absl::OkStatus();
  const CudaContext& context = stream.context();
  const CudaContext::Scope scope(context);
  MESHWORK_RETURN_IF_ERROR(scope.status());
  const CUresult result = enqueue(context.api(), static_cast<size_t>(bytes));
  if (result == CUDA_SUCCESS) return absl::OkStatus();
  return context.ToStatus(result, fmt::format(fmt::runtime(what), Count(bytes, "byte")));
}

absl::Status OutOfMemory(const CudaContext& context, int64_t bytes, CUresult result) {
  const absl::StatusOr<CudaContext::MemoryInfo> memory = context.GetMemoryInfo();
  if (!memory.ok()) return context.ToStatus(result, fmt::format("allocating {}", Count(bytes, "byte")));
  return absl::ResourceExhaustedError(fmt::format(
      "{}: allocating {}: {}; {} of {} are free. Use a smaller batch or more GPUs, or see who else uses this one.",
      context.where(), Count(bytes, "byte"), ErrorToString(context.api(), result), memory->free_bytes,
      memory->total_bytes));
}

}  // namespace

CudaBuffer::CudaBuffer(CudaBuffer&& other) noexcept { *this = std::move(other); }

CudaBuffer& CudaBuffer::operator=(CudaBuffer&& other) noexcept {
  if (this == &other) return *this;
  Free();
  stream_ = std::move(other.stream_);
  address_ = std::exchange(other.address_, 0);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

CudaBuffer::~CudaBuffer() { Free(); }

absl::StatusOr<CudaBuffer> CudaBuffer::Allocate(std::shared_ptr<const CudaStream> stream, int64_t bytes) {
  MESHWORK_CHECK(bytes >= 0);
  CudaBuffer buffer;
  if (bytes == 0) return buffer;
  const CudaContext& context = stream->context();
  const CudaContext::Scope scope(context);
  MESHWORK_RETURN_IF_ERROR(scope.status());
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
  MESHWORK_RETURN_IF_ERROR(context.ToStatus(context.api().cuStreamIsCapturing(stream->handle(), &capture),
                                            "asking whether a stream captures"));
  // The memory would exist only in launches of the graph.
  if (capture != CU_STREAM_CAPTURE_STATUS_NONE)
    return absl::FailedPreconditionError(fmt::format(
        "{}: allocating {} on a stream that captures a graph; allocate before the capture begins.",
        context.where(), Count(bytes, "byte")));
  const CUresult result =
      context.api().cuMemAllocAsync(&buffer.address_, static_cast<size_t>(bytes), stream->handle());
  if (result == CUDA_ERROR_OUT_OF_MEMORY) return OutOfMemory(context, bytes, result);
  MESHWORK_RETURN_IF_ERROR(context.ToStatus(result, fmt::format("allocating {}", Count(bytes, "byte"))));
  buffer.stream_ = std::move(stream);
  buffer.bytes_ = bytes;
  return buffer;
}

void CudaBuffer::Free() {
  if (stream_ == nullptr) return;
  if (stream_->context().is_here()) {
    const CudaContext::Scope scope(stream_->context());
    stream_->context().api().cuMemFreeAsync(address_, stream_->handle());
  }
  stream_.reset();
}

PinnedBuffer::PinnedBuffer(PinnedBuffer&& other) noexcept { *this = std::move(other); }

PinnedBuffer& PinnedBuffer::operator=(PinnedBuffer&& other) noexcept {
  if (this == &other) return *this;
  Free();
  context_ = std::move(other.context_);
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

PinnedBuffer::~PinnedBuffer() { Free(); }

absl::StatusOr<PinnedBuffer> PinnedBuffer::Allocate(std::shared_ptr<const CudaContext> context,
                                                    int64_t bytes) {
  MESHWORK_CHECK(bytes >= 0);
  PinnedBuffer buffer;
  if (bytes == 0) return buffer;
  const CudaContext::Scope scope(*context);
  MESHWORK_RETURN_IF_ERROR(scope.status());
  void* data = nullptr;
  MESHWORK_RETURN_IF_ERROR(context->ToStatus(
      context->api().cuMemHostAlloc(&data, static_cast<size_t>(bytes), CU_MEMHOSTALLOC_PORTABLE),
      fmt::format("pinning {} of the process", Count(bytes, "byte"))));
  buffer.data_ = static_cast<std::byte*>(data);
  buffer.context_ = std::move(context);
  buffer.bytes_ = bytes;
  return buffer;
}

void PinnedBuffer::Free() {
  if (context_ == nullptr) return;
  if (context_->is_here()) {
    const CudaContext::Scope scope(*context_);
    context_->api().cuMemFreeHost(data_);
  }
  context_.reset();
}

absl::Status CopyToDevice(const CudaStream& stream, CUdeviceptr to, const void* from, int64_t bytes) {
  return Enqueue(stream, bytes, "copying {} to it", [&](const CudaApi& api, size_t size) {
    return api.cuMemcpyHtoDAsync(to, from, size, stream.handle());
  });
}

absl::Status CopyToHost(const CudaStream& stream, void* to, CUdeviceptr from, int64_t bytes) {
  return Enqueue(stream, bytes, "copying {} from it", [&](const CudaApi& api, size_t size) {
    return api.cuMemcpyDtoHAsync(to, from, size, stream.handle());
  });
}

absl::Status CopyOnDevice(const CudaStream& stream, CUdeviceptr to, CUdeviceptr from, int64_t bytes) {
  return Enqueue(stream, bytes, "copying {} within it", [&](const CudaApi& api, size_t size) {
    return api.cuMemcpyDtoDAsync(to, from, size, stream.handle());
  });
}

absl::Status CopyBetweenDevices(const CudaStream& stream, const CudaContext& to_context, CUdeviceptr to,
                                const CudaContext& from_context, CUdeviceptr from, int64_t bytes) {
  const std::string what =
      fmt::format("copying {{}} from GPU {} to GPU {}", from_context.ordinal(), to_context.ordinal());
  return Enqueue(stream, bytes, what, [&](const CudaApi& api, size_t size) {
    return api.cuMemcpyPeerAsync(to, to_context.handle(), from, from_context.handle(), size, stream.handle());
  });
}

absl::Status Fill(const CudaStream& stream, CUdeviceptr to, std::byte value, int64_t bytes) {
  return Enqueue(stream, bytes, "filling {}", [&](const CudaApi& api, size_t size) {
    return api.cuMemsetD8Async(to, static_cast<unsigned char>(value), size, stream.handle());
  });
}

}  // namespace meshwork

#endif  // MESHWORK_HAVE_CUDA
