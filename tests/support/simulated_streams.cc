// Streams and events.
#include <chrono>

#include "fmt/format.h"
#include "support/simulated_world.h"

namespace meshwork {

CUresult SimulatedWorld::StreamOf(CUstream handle, SimulatedStream*& stream, bool needs_context) {
  if (handle == nullptr || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) {
    Find("work is put on a default stream of CUDA, which waits for all others.");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  SimulatedStream* const found = FindHandle(streams_, handle);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  int device = 0;
  const CUresult result = Current(device);
  if (needs_context && (result == CUDA_ERROR_INVALID_CONTEXT || result == CUDA_ERROR_CONTEXT_IS_DESTROYED))
    return result;
  stream = found;
  return StateOf(found->device);
}

void SimulatedWorld::Enqueue(SimulatedStream& stream, std::function<void()> run, bool even_if_lost) {
  const int device = stream.device;
  auto guarded = [this, device, run = std::move(run), even_if_lost] {
    if (even_if_lost || contexts_[static_cast<size_t>(device)].lost == CUDA_SUCCESS) run();
  };
  if (stream.capture == nullptr) {
    stream.last = work.Add(device, std::move(guarded), {stream.last});
    return;
  }
  stream.capture->nodes.push_back({device, std::move(guarded), stream.tails});
  stream.tails = {stream.capture->nodes.size() - 1};
}

void SimulatedWorld::EnqueueMeeting(SimulatedStream& stream, std::function<std::function<bool()>()> meets) {
  if (stream.capture == nullptr) {
    stream.last = work.AddMeeting(stream.device, meets(), {stream.last});
    return;
  }
  stream.capture->nodes.push_back({stream.device, {}, stream.tails, std::move(meets)});
  stream.tails = {stream.capture->nodes.size() - 1};
}

void SimulatedWorld::Await(int device, const SimulatedOpPtr& op) {
  constexpr int kMostPauses = 600'000;  // a minute, and more
  for (int pauses = 0; op != nullptr && !op->is_done;) {
    if (work.DoOne()) continue;
    if (++pauses == kMostPauses) {
      Find(fmt::format("GPU {} waits for another one, which does not come.", device));
      Lose(device, CUDA_ERROR_LAUNCH_TIMEOUT);
      work.Wake();
      continue;
    }
    mutex.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    mutex.lock();
  }
}

CUresult SimulatedWorld::cuStreamCreate(CUstream* stream, unsigned flags) {
  int device = 0;
  if (const CUresult result = Current(device); result != CUDA_SUCCESS) return result;
  if (stream == nullptr || flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  const uintptr_t handle = NewHandle();
  streams_[handle].device = device;
  *stream = reinterpret_cast<CUstream>(handle);
  return CUDA_SUCCESS;
}

CUresult SimulatedWorld::cuStreamDestroy(CUstream handle) {
  SimulatedStream* stream = nullptr;
  const CUresult result = StreamOf(handle, stream, /*needs_context=*/false);
  if (stream == nullptr) return result;
  if (stream->capture != nullptr) stream->capture->is_invalid = true;
  streams_.erase(reinterpret_cast<uintptr_t>(handle));
  return result;
}

CUresult SimulatedWorld::cuStreamQuery(CUstream handle) {
  SimulatedStream* stream = nullptr;
  if (const CUresult result = StreamOf(handle, stream); result != CUDA_SUCCESS) return result;
  if (stream->capture != nullptr) {
    stream->capture->is_invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  work.DoSome();
  if (const CUresult lost = StateOf(stream->device); lost != CUDA_SUCCESS) return lost;
  return stream->last == nullptr || stream->last->is_done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult SimulatedWorld::cuStreamSynchronize(CUstream handle) {
  SimulatedStream* stream = nullptr;
  if (const CUresult result = StreamOf(handle, stream); result != CUDA_SUCCESS) return result;
  if (stream->capture != nullptr) {
    stream->capture->is_invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  const int device = stream->device;  // another thread may make streams meanwhile
  Await(device, SimulatedOpPtr(stream->last));
  return StateOf(device);
}

CUresult SimulatedWorld::cuStreamWaitEvent(CUstream handle, CUevent event_handle, unsigned flags) {
  SimulatedStream* stream = nullptr;
  if (const CUresult result = StreamOf(handle, stream); result != CUDA_SUCCESS) return result;
  const SimulatedEvent* const event = FindHandle(events_, event_handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (flags != CU_EVENT_WAIT_DEFAULT) return CUDA_ERROR_INVALID_VALUE;
  if (event->capture == nullptr) {
    if (stream->capture != nullptr) {
      stream->capture->is_invalid = true;
      return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    if (event->is_recorded) stream->last = work.Add(stream->device, {}, {stream->last, event->op});
    return CUDA_SUCCESS;
  }
  if (event->capture->is_over) return CUDA_ERROR_CAPTURED_EVENT;
  if (stream->capture != nullptr && stream->capture != event->capture) {
    stream->capture->is_invalid = event->capture->is_invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  stream->capture = event->capture;
  stream->tails.insert(stream->tails.end(), event->tails.begin(), event->tails.end());
  return CUDA_SUCCESS;
}

CUresult SimulatedWorld::cuEventCreate(CUevent* event, unsigned flags) {
  int device = 0;
  if (const CUresult result = Current(device); result != CUDA_SUCCESS) return result;
  if (event == nullptr || flags > (CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING))
    return CUDA_ERROR_INVALID_VALUE;
  const uintptr_t handle = NewHandle();
  events_[handle].device = device;
  events_[handle].has_time = (flags & CU_EVENT_DISABLE_TIMING) == 0;
  *event = reinterpret_cast<CUevent>(handle);
  return CUDA_SUCCESS;
}

CUresult SimulatedWorld::cuEventDestroy(CUevent handle) {
  const SimulatedEvent* const event = FindHandle(events_, handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const int device = event->device;
  events_.erase(reinterpret_cast<uintptr_t>(handle));
  return StateOf(device);
}

CUresult SimulatedWorld::cuEventRecord(CUevent handle, CUstream stream_handle) {
  SimulatedStream* stream = nullptr;
  if (const CUresult result = StreamOf(stream_handle, stream); result != CUDA_SUCCESS) return result;
  SimulatedEvent* const event = FindHandle(events_, handle);
  if (event == nullptr || event->device != stream->device) return CUDA_ERROR_INVALID_HANDLE;
  event->is_recorded = true;
  event->capture = stream->capture;
  event->tails = stream->tails;
  event->op = nullptr;
  if (stream->capture == nullptr) event->op = stream->last = work.Add(stream->device, {}, {stream->last});
  return CUDA_SUCCESS;
}

CUresult SimulatedWorld::cuEventQuery(CUevent handle) {
  const SimulatedEvent* const event = FindHandle(events_, handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult lost = StateOf(event->device); lost != CUDA_SUCCESS) return lost;
  if (event->capture != nullptr) return CUDA_ERROR_CAPTURED_EVENT;
  work.DoSome();
  if (const CUresult lost = StateOf(event->device); lost != CUDA_SUCCESS) return lost;
  return event->op == nullptr || event->op->is_done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult SimulatedWorld::cuEventSynchronize(CUevent handle) {
  const SimulatedEvent* const event = FindHandle(events_, handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult lost = StateOf(event->device); lost != CUDA_SUCCESS) return lost;
  if (event->capture != nullptr) {
    event->capture->is_invalid = true;
    return CUDA_ERROR_CAPTURED_EVENT;
  }
  const int device = event->device;
  Await(device, SimulatedOpPtr(event->op));
  return StateOf(device);
}

CUresult SimulatedWorld::cuEventElapsedTime(float* milliseconds, CUevent start_handle, CUevent end_handle) {
  const SimulatedEvent* const start = FindHandle(events_, start_handle);
  const SimulatedEvent* const end = FindHandle(events_, end_handle);
  if (milliseconds == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (const SimulatedEvent* event : {start, end})
    if (event == nullptr || !event->has_time || event->op == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult lost = StateOf(end->device); lost != CUDA_SUCCESS) return lost;
  if (!start->op->is_done || !end->op->is_done) return CUDA_ERROR_NOT_READY;
  // Every op counts as one millisecond.
  *milliseconds = static_cast<float>(end->op->done_at - start->op->done_at);
  return CUDA_SUCCESS;
}

}  // namespace meshwork
