// Trace: when each instruction of the last steps ran, on a track per device and a track per worker.
//
//   auto step = Executor::Create(program, pool, {.trace_steps = 10}, &state).value();
//   …steps…
//   std::string json = step->Trace().ToJson();   // opens in ui.perfetto.dev and in chrome://tracing
//
//   steps                          |step 118                                                       |
//   device 0 (batch=0, model=0)    |matmul|        |waiting|all_reduce|neg|                         …
//   device 1 (batch=0, model=1)           |matmul| |waiting|all_reduce|neg|
//   worker 0 (devices 0-1)         |matmul         |waiting|all_reduce|neg|
//
// What ran are the workers, and their tracks show everything: each instruction of each step once, and before
// it the waiting at a barrier where there is one. Instructions of a worker follow each other, so nothing on a
// track overlaps.
//
// A device's track shows what its worker (runtime/schedule.h) did for it:
//   - a kernel, from its begin to its end for this device: a worker runs its devices' blocks one after
//     the other. A value that several devices share is computed once, and shown on all those that the worker
//     drives; `devices` lists who shares it. What another worker did for this device is on that one's track;
//   - a collective, always, and packing, unpacking, comparing and assigning where the worker had a part: for
//     the time that they took the worker, on each of its devices alike;
//   - waiting at barriers, on each of the worker's devices alike.
// Where a track is empty between events the worker was busy with its other devices.
//
// Times are of the steady clock, in nanoseconds since the first traced step began.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/runtime/schedule.h"

namespace meshwork {

struct ProfileRow;

struct TraceTrack {
  enum class Kind : uint8_t { kSteps, kDevice, kWorker };
  Kind kind = Kind::kSteps;
  int64_t index = 0;  // of the device or the worker
  std::string name;   // "device 3 (batch=1, model=1)"
};

// What an event shows; many share one.
struct TraceLabel {
  std::string name;      // "matmul", "pack", "waiting", "step 118"
  std::string category;  // "kernel", "collective", "pack", "unpack", "assign", "compare", "waiting", "step"
  // By name: "where", "operands", "result", "devices", "cause", "part", …
  std::vector<std::pair<std::string, std::string>> texts = {};
  double flops = 0;   // as a ProfileRow counts them, of this event
  int64_t bytes = 0;  // of the whole instruction
};

struct TraceEvent {
  int track = 0;
  int label = 0;
  int64_t step = 0;      // counted from 0 since Create or ClearProfile
  int64_t start_ns = 0;  // since the first traced step began
  int64_t ns = 0;
};

struct Trace {
  std::string name;  // "step on mesh [batch=4, model=2]"
  std::vector<TraceTrack> tracks;
  std::vector<TraceLabel> labels;
  std::vector<TraceEvent> events;  // track by track, each by time

  // In the trace-event format of Chrome: one complete event ("X") per event, in microseconds.
  std::string ToJson() const;
};

// Records when the instructions of the last steps ended. Everything is allocated when it is made. Each worker
// uses its own lane; the other functions are for one thread, between steps.
class TraceRecorder {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Keeps the last `steps` steps. REQUIRES: steps >= 1; `local` and `schedule` outlive the recorder.
  TraceRecorder(const Graph& local, const Schedule& schedule, int steps);

  // A row of times per step, overwritten after so many steps: the worker's start; then, from first[i] on, for
  // instruction i: the end of its waiting, its own end, and the end of each slice of a kernel. 0: there was
  // none.
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

  // `rows`: what a profile says of each instruction, for one call.
  Trace Read(const std::vector<ProfileRow>& rows) const;
  // Forgets what was recorded.
  void Clear();

 private:
  friend class TraceReader;
  static int64_t Nanoseconds(Time time) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
  }

  const Graph& local_;
  const Schedule& schedule_;
  std::vector<Lane> lanes_;                          // per worker
  std::vector<std::pair<int64_t, int64_t>> bounds_;  // of the last steps: start and end
  int64_t steps_ = 0;                                // that ended
};

}  // namespace meshwork
