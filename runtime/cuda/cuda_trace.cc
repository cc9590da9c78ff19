#include "meshwork/runtime/cuda/cuda_trace.h"

#include <algorithm>
#include <iterator>

#include "fmt/format.h"
#include "meshwork/base/status.h"

namespace meshwork {

CudaTrace::CudaTrace(std::string name, std::string gpu, int steps)
    : name_(std::move(name)), gpu_(std::move(gpu)), most_(static_cast<size_t>(steps)) {
  MESHWORK_CHECK(steps >= 1, "{} steps", steps);
}

void CudaTrace::Begin(int64_t start_ns) {
  now_.slices.clear();
  // The clocks differ by so little that it does not show, except that events of a track must not overlap.
  now_.start_ns = now_.end_ns = steps_.empty() ? start_ns : std::max(start_ns, steps_.back().end_ns);
}

void CudaTrace::Add(size_t row, int64_t ns) {
  now_.slices.push_back({row, ns});
  now_.end_ns += ns;
}

void CudaTrace::End(int64_t end_ns) {
  now_.end_ns = std::max(now_.end_ns, end_ns);
  steps_.push_back(std::move(now_));
  now_ = {};
  ++num_steps_;
  if (steps_.size() <= most_) return;
  now_.slices = std::move(steps_.front().slices);  // its memory
  steps_.pop_front();
}

Trace CudaTrace::Read() const {
  Trace trace{.name = name_,
              .origin_ns = steps_.empty() ? 0 : steps_.front().start_ns,
              .tracks = {{TraceTrack::Kind::kSteps, 0, "steps"}, {TraceTrack::Kind::kWorker, 0, gpu_}},
              .labels = labels_};
  std::vector<TraceEvent> launches;
  int64_t number = num_steps_ - std::ssize(steps_);
  for (const Step& step : steps_) {
    int64_t at = step.start_ns - trace.origin_ns;
    trace.events.push_back(
        {0, static_cast<int>(trace.labels.size()), number, at, step.end_ns - step.start_ns});
    trace.labels.push_back({fmt::format("step {}", number), "step"});
    for (const Slice& slice : step.slices) {
      launches.push_back({1, static_cast<int>(slice.row), number, at, slice.ns});
      at += slice.ns;
    }
    ++number;
  }
  trace.events.insert(trace.events.end(), launches.begin(), launches.end());
  return trace;
}

void CudaTrace::Clear() {
  steps_.clear();
  num_steps_ = 0;
}

}  // namespace meshwork
