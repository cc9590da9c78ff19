// Measures the launches of a step on the GPU, by events between them: makes a Profile (runtime/exec/profile.h) and, if
// it is asked for, a Trace. The GPU counts as one worker. The row of inputs has the time until they are on the GPU,
// including the work of the process for that; "other" is the work of the process after the last launch. A measured step
// is launched kernel by kernel, so each launch takes some microseconds more than in a graph.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "meshwork/runtime/cuda/cuda_level.h"
#include "meshwork/runtime/cuda/cuda_stream.h"
#include "meshwork/runtime/cuda/cuda_trace.h"
#include "meshwork/runtime/exec/profile.h"

namespace meshwork {

class CudaProfiler {
 public:
  using Clock = std::chrono::steady_clock;

  // Traces the last `trace_steps` steps, unless that is 0. REQUIRES: `level` outlives the profiler, and does not move.
  CudaProfiler(const CudaLevel& level, std::shared_ptr<const CudaStream> stream, int trace_steps = 0);

  absl::Status Start();
  // Copies of host tensors, the inputs or the outputs, of `bytes` in all, were put on the stream after what was
  // counted before.
  absl::Status Copied(bool is_input, int64_t bytes);
  // The launch was put on the stream.
  absl::Status Ran(const CudaAction& action);
  // REQUIRES: the stream is done.
  absl::Status End();

  const Profile& profile() const { return profile_; }
  // Empty without trace_steps.
  Trace ReadTrace() const { return trace_ == nullptr ? Trace() : trace_->Read(); }
  void Clear();

 private:
  // Adds the rows of a level and its bodies.
  void AddRows(const CudaLevel& level);
  absl::Status Mark(size_t row);

  const std::shared_ptr<const CudaStream> stream_;
  Profile profile_;
  std::vector<ProfileRow> calls_;                         // of one call each, without times
  std::map<const CudaAction*, size_t> rows_;              // of each launch
  std::vector<std::unique_ptr<const CudaEvent>> events_;  // made as they are needed
  std::vector<size_t> marks_;                             // the row that ends at event i + 1
  Clock::time_point start_;
  std::unique_ptr<CudaTrace> trace_;  // null without trace_steps
};

}  // namespace meshwork
