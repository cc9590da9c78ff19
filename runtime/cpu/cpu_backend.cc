#include "meshwork/runtime/cpu/cpu_backend.h"

#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/runtime/cpu/cpu_memory.h"
#include "meshwork/runtime/cpu/cpu_step.h"
#include "meshwork/runtime/cpu/schedule.h"

namespace meshwork {

CpuBackend::CpuBackend(int workers, bool own_cores)
    : own_(std::make_unique<WorkerPool>(workers, own_cores)), pool_(*own_) {}

CpuBackend::CpuBackend(WorkerPool& pool) : pool_(pool) {}

std::shared_ptr<Memory> CpuBackend::memory() const { return CpuMemory(); }

absl::StatusOr<ExecutorMemory> CpuBackend::PlanMemory(StepPlan plan, const PrepareOptions& options) const {
  return MemoryOf(MakeSchedule(std::move(plan), num_workers(), options.fuse));
}

absl::StatusOr<std::unique_ptr<PreparedStep>> CpuBackend::Prepare(StepPlan plan,
                                                                  std::vector<DTensor> variables,
                                                                  const PrepareOptions& options) {
  std::shared_ptr<const void> kept;
  if (options.transport != nullptr) {
    kept = pool_.KeepFor(options.transport);
    if (kept == nullptr)
      return absl::FailedPreconditionError(
          fmt::format("CpuBackend: its threads work for another domain than {}; give each domain a backend "
                      "and threads of its "
                      "own, or one would wait for the other.",
                      options.transport->domain()));
  }
  return CpuStep::Create(std::move(plan), std::move(variables), pool_, std::move(kept), options);
}

}  // namespace meshwork
