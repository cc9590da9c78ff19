// Streams and events: the order of work on GPUs.
//
//   MESHWORK_ASSIGN_OR_RETURN(const auto compute, CudaStream::Create(context));
//   MESHWORK_ASSIGN_OR_RETURN(const auto copies, CudaStream::Create(context));
//   MESHWORK_ASSIGN_OR_RETURN(const auto computed, CudaEvent::Create(context));
//   MESHWORK_RETURN_IF_ERROR(computed->Record(*compute));
//   MESHWORK_RETURN_IF_ERROR(copies->Wait(*computed));   // what follows on `copies` comes after
//
// Work on one stream runs in the order of the calls; work on two streams in any order that events leave open. No stream
// waits for CUDA's default stream. Several threads may use a stream or an event at the same time, but whose work comes
// first is then open.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/runtime/cuda/cuda_context.h"

namespace meshwork {

class CudaEvent;

class CudaStream {
 public:
  static absl::StatusOr<std::shared_ptr<const CudaStream>> Create(std::shared_ptr<const CudaContext> context);
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;
  // Does not wait: the GPU finishes the work that is on the stream.
  ~CudaStream();

  const CudaContext& context() const { return *context_; }
  const std::shared_ptr<const CudaContext>& shared_context() const { return context_; }
  CUstream handle() const { return handle_; }

  // Later work on this stream begins after the work before the event, which may be recorded on any stream of any GPU.
  // An event that was never recorded is not waited for.
  absl::Status Wait(const CudaEvent& event) const;
  // Returns when all work on the stream is done. Error: that of the work.
  absl::Status Synchronize() const;
  // As Synchronize, but waits once more if that fails, so that memory that the work uses may be freed afterwards: a
  // GPU that has failed does no more work, and any other GPU is waited for.
  absl::Status Drain() const;
  // Whether all work on the stream is done. Error: that of the work.
  absl::StatusOr<bool> IsDone() const;

 private:
  explicit CudaStream(std::shared_ptr<const CudaContext> context) : context_(std::move(context)) {}

  const std::shared_ptr<const CudaContext> context_;
  CUstream handle_ = nullptr;
};

class CudaEvent {
 public:
  enum class Kind { kOrder, kTiming };

  // Events that measure time slow streams down.
  static absl::StatusOr<std::unique_ptr<const CudaEvent>> Create(std::shared_ptr<const CudaContext> context,
                                                                 Kind kind = Kind::kOrder);
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;
  ~CudaEvent();

  CUevent handle() const { return handle_; }

  // From here on the event stands for all work that the stream has now. Error: the stream is another GPU's.
  absl::Status Record(const CudaStream& stream) const;
  absl::Status Synchronize() const;
  absl::StatusOr<bool> IsDone() const;
  // Milliseconds from `start` to this event. REQUIRES: both measure time. Error: one of them is not done.
  absl::StatusOr<double> MillisecondsSince(const CudaEvent& start) const;

 private:
  explicit CudaEvent(std::shared_ptr<const CudaContext> context) : context_(std::move(context)) {}

  const std::shared_ptr<const CudaContext> context_;
  CUevent handle_ = nullptr;
};

}  // namespace meshwork
