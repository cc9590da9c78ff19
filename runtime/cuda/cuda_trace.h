// When the launches of the last steps ran on a GPU, as a Trace (runtime/exec/trace.h): a track of the steps, and one of
// the GPU, on which the launches of all devices follow each other. Written by a CudaProfiler, which measures them.
//
// The GPU's clock is not the host's. So launches are placed after the begin of their step on the host, when the GPU
// has no other work of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "meshwork/runtime/exec/trace.h"

namespace meshwork {

class CudaTrace {
 public:
  // Keeps the last `steps` steps of a program. `name`: of the trace; `gpu`: of its track. REQUIRES: steps >= 1.
  CudaTrace(std::string name, std::string gpu, int steps);

  // The label of the next row, counted from 0.
  void AddLabel(TraceLabel label) { labels_.push_back(std::move(label)); }

  // Bytes that the row reads and writes in each step.
  void SetBytes(size_t row, int64_t bytes) { labels_[row].bytes = bytes; }

  // A step has begun, at nanoseconds since the epoch of the steady clock. A step that is not ended is replaced by the
  // next.
  void Begin(int64_t start_ns);
  // The launch of this row took so long. It follows the one before.
  void Add(size_t row, int64_t ns);
  void End(int64_t end_ns);

  Trace Read() const;
  // Forgets all steps.
  void Clear();

 private:
  struct Slice {
    size_t row = 0;
    int64_t ns = 0;
  };
  struct Step {
    int64_t start_ns = 0, end_ns = 0;
    std::vector<Slice> slices = {};
  };

  const std::string name_, gpu_;
  const size_t most_;
  std::vector<TraceLabel> labels_;
  Step now_;
  std::deque<Step> steps_;  // that have ended
  int64_t num_steps_ = 0;   // since the last Clear
};

}  // namespace meshwork
