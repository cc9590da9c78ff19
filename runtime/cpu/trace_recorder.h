// Records when each worker did each instruction of the last steps, and reads it as a Trace
// (runtime/exec/trace.h).
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include "meshwork/runtime/cpu/schedule.h"
#include "meshwork/runtime/exec/profile.h"
#include "meshwork/runtime/exec/trace.h"

namespace meshwork {

// Records when the instructions of the last steps ended. The constructor allocates everything. Each worker
// uses its own lane; the other functions are for one thread, between steps.
class TraceRecorder {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Keeps the last `steps` steps. REQUIRES: steps >= 1; `schedule` outlives the recorder.
  TraceRecorder(const Schedule& schedule, int steps);

  // A row of times per step, overwritten after `steps` steps: the worker's start; then, from first[i] on, for
  // instruction i: the end of its waiting, its own end, and the end of each slice of a kernel. 0: it did not
  // happen.
  class alignas(64) Lane {
   public:
    void Start(Time now) {
      row_ = times_.data() + static_cast<size_t>(step_++ % steps_) * slots_;
      std::fill(row_, row_ + slots_, 0);
      row_[0] = Nanoseconds(now);
    }
    void Waited(size_t instruction, Time now) { row_[first_[instruction]] = Nanoseconds(now); }
    void Ran(size_t instruction, Time now) { row_[first_[instruction] + 1] = Nanoseconds(now); }
    void RanSlice(size_t instruction, size_t slice) {
      row_[first_[instruction] + 2 + slice] = Nanoseconds(std::chrono::steady_clock::now());
    }

   private:
    friend class TraceRecorder;
    friend class TraceReader;
    std::vector<size_t> first_;  // per instruction
    std::vector<int64_t> times_;
    int64_t* row_ = nullptr;
    size_t slots_ = 0;
    int64_t step_ = 0, steps_ = 0;
  };
  Lane& lane(int worker) { return lanes_[static_cast<size_t>(worker)]; }
  void EndStep(Time start, Time end);

  // `rows`: a profile's row for each instruction, for one call.
  Trace Read(const std::vector<ProfileRow>& rows) const;
  // Forgets all recorded times.
  void Clear();

 private:
  friend class TraceReader;
  static int64_t Nanoseconds(Time time) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
  }

  const Schedule& schedule_;
  std::vector<Lane> lanes_;                          // per worker
  std::vector<std::pair<int64_t, int64_t>> bounds_;  // of the last steps: start and end
  int64_t steps_ = 0;                                // steps that have ended
};

}  // namespace meshwork
