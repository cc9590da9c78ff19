// CpuStep: a schedule (runtime/cpu/schedule.h) with memory, run by the workers of a pool in lockstep.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/base/fork.h"
#include "meshwork/runtime/cpu/level.h"
#include "meshwork/runtime/cpu/padding.h"
#include "meshwork/runtime/cpu/profiler.h"
#include "meshwork/runtime/cpu/run_calls.h"
#include "meshwork/runtime/cpu/schedule.h"
#include "meshwork/runtime/cpu/worker_pool.h"
#include "meshwork/runtime/exec/backend.h"
#include "meshwork/runtime/exec/replicas.h"

namespace meshwork {

// The memory that a schedule needs, without variables.
ExecutorMemory MemoryOf(const Schedule& schedule);

class CpuStep : public PreparedStep {
 public:
  // As Backend::Prepare. `pool` must outlive the step. The step holds `kept` as long as it lives.
  static absl::StatusOr<std::unique_ptr<PreparedStep>> Create(StepPlan plan, std::vector<DTensor> variables,
                                                              WorkerPool& pool,
                                                              std::shared_ptr<const void> kept,
                                                              const PrepareOptions& options);
  CpuStep(const CpuStep&) = delete;
  CpuStep& operator=(const CpuStep&) = delete;

  absl::Status Run(std::span<const std::byte* const> feeds, std::span<std::byte* const> outputs,
                   std::span<const std::byte* const> staged) override;
  bool wrote_spares() const override { return wrote_spares_; }
  ExecutorMemory memory() const override { return MemoryOf(schedule_); }
  meshwork::Profile Profile() const override;
  meshwork::Trace Trace() const override;
  void ClearProfile() override;

  const Schedule& schedule() const { return schedule_; }

 private:
  // The data that each worker needs for itself during a step.
  struct alignas(64) WorkerState {
    std::vector<const void*> in;  // room for one kernel call's pointers
    std::vector<void*> out;
    std::vector<const std::byte*> sends;  // room for the pointers of one operation across domains
    std::vector<std::byte*> receives;
    CallRoom calls;       // room for one call of a cross-device op
    absl::Status status;  // the first error of a kernel or of the transport
    // The first replicas found to differ: instruction, item, and where; -1: none.
    int instruction = -1, item = -1;
    Difference difference;
  };

  CpuStep(Schedule schedule, std::vector<DTensor> variables, WorkerPool& pool, const PrepareOptions& options);

  // ---- Before the first step.
  void FindHostBuffers();
  void AllocateArenas();
  void MakeRoom(const Schedule& schedule);
  absl::Status PrepareRemotes(Level& level);
  absl::Status RunOnce();
  void RunOnce(const Level& level);

  // ---- A step.
  void FollowVariables();
  void Poison();
  void PoisonSpares();
  void RunWorker(int worker);
  // False if there is nothing to do: the output is not asked for.
  bool RunInstruction(const Level& level, size_t i, int worker);
  void RunKernels(const Level& level, size_t i, int worker);
  void RunStep(const Level& level, const Instruction& instruction, const KernelStep& step, int64_t begin,
               int64_t end, int64_t strip, int worker, Team* team = nullptr);
  // Whether this step has failed and keeps the old values of variables, so that it must not run on.
  bool IsOver() const { return has_spares_ && has_failed_.load(std::memory_order_relaxed); }
  void RunRemote(const Level& level, size_t i, int worker);
  void PassFence();
  void LeaveRemotes(const Level& level);
  void RunCalls(const Level& level, size_t i, int worker);
  void RunKernelsOrFail(const Level& level, size_t i, int worker);
  void RunTeam(const Level& level, size_t i, int worker);
  void Fail(int worker, absl::Status status);
  void RunLoop(const Level& level, size_t i, int worker);
  void RunBody(const Level& body, int worker);
  void Compare(size_t i, int worker);
  absl::Status StepStatus() const;

  WorkerPool& pool_;
  const PrepareOptions options_;
  const ForkMark made_;
  const Schedule schedule_;
  std::shared_ptr<const void> kept_;
  std::vector<DTensor> variables_;             // per argument; invalid for inputs and replaced variables
  std::vector<Padding> paddings_;              // of the variables
  std::vector<std::shared_ptr<void>> arenas_;  // per worker, then the shared arena and the constants' arena
  Level root_;
  std::vector<std::vector<BufferId>> feed_buffers_;    // per argument: the buffers in the fed tensor
  std::vector<std::vector<BufferId>> output_buffers_;  // per output, the same
  // Per argument: the buffers in the variable, and in its spare; and where the variable lay in the last step.
  std::vector<std::vector<BufferId>> variable_buffers_, spare_buffers_;
  std::vector<const std::byte*> lay_;
  bool has_spares_ = false, has_fence_ = false;
  bool wrote_spares_ = false;  // whether the last step may have
  std::vector<WorkerState> workers_;
  std::atomic<bool> has_failed_{false};  // whether this step has failed in any worker
  bool skips_team_ = false;              // whether the workers leave out a kernel that they run as a team
  void* from_first_ = nullptr;           // see Team::FromFirst
  std::unique_ptr<Profiler> profiler_;   // null unless options.profile or trace_steps
};

}  // namespace meshwork
