// Measures what each worker spends on each instruction of a schedule: the numbers of a Profile
// (runtime/exec/profile.h) and, if asked for, the times of a Trace (runtime/exec/trace.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "meshwork/runtime/cpu/schedule.h"
#include "meshwork/runtime/cpu/trace_recorder.h"
#include "meshwork/runtime/exec/profile.h"

namespace meshwork {

// Measures the steps of one schedule. The constructor allocates everything. Each worker uses its own lane;
// the other functions are for one thread, between steps.
class Profiler {
 public:
  using Clock = std::chrono::steady_clock;

  // Also records a trace of the last `trace_steps` steps, unless that is 0. REQUIRES: `schedule` outlives
  // the profiler.
  explicit Profiler(const Schedule& schedule, int trace_steps = 0);

  // The measurements of one worker: each call ends a lap that began with the call before.
  class alignas(64) Lane {
   public:
    void Start() {
      last_ = Clock::now();
      if (trace_ != nullptr) trace_->Start(last_);
    }
    // After waiting at the barrier before this instruction.
    void Waited(size_t instruction) {
      wait_ns_ += Lap();
      if (trace_ != nullptr) trace_->Waited(instruction, last_);
    }
    void Ran(size_t instruction) {
      const int64_t lap = Lap();
      ns_[instruction] += lap;
      ++calls_[instruction];
      if (!remote_kinds_.empty()) RanRemote(remote_kinds_[instruction], lap);
      if (trace_ != nullptr) trace_->Ran(instruction, last_);
    }
    // A slice of a kernel, before the call of Ran; only a trace needs it.
    void RanSlice(size_t instruction, size_t slice) {
      if (trace_ != nullptr) trace_->RanSlice(instruction, slice);
    }

   private:
    friend class Profiler;
    int64_t Lap() {
      const Clock::time_point now = Clock::now();
      const auto lap = std::chrono::duration_cast<std::chrono::nanoseconds>(now - last_);
      last_ = now;
      return lap.count();
    }
    // Counts the time in which operations across domains are under way, and the time in which the worker
    // waits for one.
    void RanRemote(Instruction::Kind kind, int64_t lap) {
      if (kind == Instruction::Kind::kStart && under_way_++ == 0) since_ = last_;
      if (kind == Instruction::Kind::kWait && --under_way_ == 0)
        remote_ns_ += std::chrono::duration_cast<std::chrono::nanoseconds>(last_ - since_).count();
      if (kind == Instruction::Kind::kRemote && under_way_ == 0) remote_ns_ += lap;
      if (kind == Instruction::Kind::kRemote || kind == Instruction::Kind::kWait) remote_wait_ns_ += lap;
    }

    Clock::time_point last_, since_;
    TraceRecorder::Lane* trace_ = nullptr;
    int64_t wait_ns_ = 0;
    std::vector<int64_t> ns_, calls_;  // per instruction
    // For worker 0, if data crosses between domains: the kind of each instruction.
    std::vector<Instruction::Kind> remote_kinds_;
    int under_way_ = 0;
    int64_t remote_ns_ = 0, remote_wait_ns_ = 0;
  };
  Lane& lane(int worker) { return lanes_[static_cast<size_t>(worker)]; }
  void EndStep(Clock::time_point start);

  Profile Read() const;
  Trace ReadTrace() const;  // empty without trace_steps
  // Forgets all measurements.
  void Clear();

 private:
  std::vector<ProfileRow> rows_;          // for one call each, without times
  std::vector<Lane> lanes_;               // per worker
  std::unique_ptr<TraceRecorder> trace_;  // null without trace_steps
  int64_t steps_ = 0;
  int64_t wall_ns_ = 0;
};

}  // namespace meshwork
