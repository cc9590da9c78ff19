#ifdef MESHWORK_HAVE_CUDA
#include "meshwork/runtime/cuda/cuda_stream.h"

#include <utility>

#include "meshwork/base/status.h"

namespace meshwork {

absl::StatusOr<std::shared_ptr<const CudaStream>> CudaStream::Create(
    std::shared_ptr<const CudaContext> context) {
  const std::shared_ptr<CudaStream> stream(new CudaStream(std::move(context)));
  const CudaContext& on = stream->context();
  const CudaContext::Scope scope(on);
  MESHWORK_RETURN_IF_ERROR(scope.status());
  MESHWORK_RETURN_IF_ERROR(
      on.ToStatus(on.api().cuStreamCreate(&stream->handle_, CU_STREAM_NON_BLOCKING), "making a stream"));
  return stream;
}

CudaStream::~CudaStream() {
  if (handle_ == nullptr || !context_->is_here()) return;
  const CudaContext::Scope scope(*context_);
  context_->api().cuStreamDestroy(handle_);
}

absl::Status CudaStream::Wait(const CudaEvent& event) const {
  const CudaContext::Scope scope(*context_);
  MESHWORK_RETURN_IF_ERROR(scope.status());
  return context_->ToStatus(context_->api().cuStreamWaitEvent(handle_, event.handle(), CU_EVENT_WAIT_DEFAULT),
                            "having a stream wait for an event");
}

absl::Status CudaStream::Synchronize() const {
  const CudaContext::Scope scope(*context_);
  MESHWORK_RETURN_IF_ERROR(scope.status());
  return context_->ToStatus(context_->api().cuStreamSynchronize(handle_), "waiting for a stream");
}

absl::Status CudaStream::Drain() const {
  const absl::Status waited = Synchronize();
  if (!waited.ok()) Synchronize().IgnoreError();
  return waited;
}

absl::StatusOr<bool> CudaStream::IsDone() const {
  const CudaContext::Scope scope(*context_);
  MESHWORK_RETURN_IF_ERROR(scope.status());
  const CUresult result = context_->api().cuStreamQuery(handle_);
  if (result == CUDA_ERROR_NOT_READY) return false;
  MESHWORK_RETURN_IF_ERROR(context_->ToStatus(result, "asking whether a stream is done"));
  return true;
}

absl::StatusOr<std::unique_ptr<const CudaEvent>> CudaEvent::Create(std::shared_ptr<const CudaContext> context,
                                                                   Kind kind) {
  std::unique_ptr<CudaEvent> event(new CudaEvent(std::move(context)));
  const CudaContext& on = *event->context_;
  const CudaContext::Scope scope(on);
  MESHWORK_RETURN_IF_ERROR(scope.status());
  const unsigned flags = kind == Kind::kOrder ? CU_EVENT_DISABLE_TIMING : CU_EVENT_DEFAULT;
  MESHWORK_RETURN_IF_ERROR(on.ToStatus(on.api().cuEventCreate(&event->handle_, flags), "making an event"));
  return event;
}

CudaEvent::~CudaEvent() {
  if (handle_ == nullptr || !context_->is_here()) return;
  const CudaContext::Scope scope(*context_);
  context_->api().cuEventDestroy(handle_);
}

absl::Status CudaEvent::Record(const CudaStream& stream) const {
  const CudaContext::Scope scope(*context_);
  MESHWORK_RETURN_IF_ERROR(scope.status());
  return context_->ToStatus(context_->api().cuEventRecord(handle_, stream.handle()), "recording an event");
}

absl::Status CudaEvent::Synchronize() const {
  const CudaContext::Scope scope(*context_);
  MESHWORK_RETURN_IF_ERROR(scope.status());
  return context_->ToStatus(context_->api().cuEventSynchronize(handle_), "waiting for an event");
}

absl::StatusOr<bool> CudaEvent::IsDone() const {
  const CudaContext::Scope scope(*context_);
  MESHWORK_RETURN_IF_ERROR(scope.status());
  const CUresult result = context_->api().cuEventQuery(handle_);
  if (result == CUDA_ERROR_NOT_READY) return false;
  MESHWORK_RETURN_IF_ERROR(context_->ToStatus(result, "asking whether an event is done"));
  return true;
}

absl::StatusOr<double> CudaEvent::MillisecondsSince(const CudaEvent& start) const {
  const CudaContext::Scope scope(*context_);
  MESHWORK_RETURN_IF_ERROR(scope.status());
  float milliseconds = 0;
  MESHWORK_RETURN_IF_ERROR(
      context_->ToStatus(context_->api().cuEventElapsedTime(&milliseconds, start.handle_, handle_),
                         "asking for the time between two events"));
  return static_cast<double>(milliseconds);
}

}  // namespace meshwork

#endif  // MESHWORK_HAVE_CUDA
