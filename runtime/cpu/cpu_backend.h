// CpuBackend: the cores of this process and its memory.
//
//   CpuBackend backend;                        // a worker per core
//   CpuBackend two(2);
//   WorkerPool pool(4);
//   CpuBackend shared(pool);                   // on threads that others use as well
//
// The rows of a step are divided between workers (runtime/cpu/schedule.h), which walk through the step in
// lockstep. Steps of backends that share a pool wait for each other, so each domain of a process needs a pool
// of its own; otherwise two domains would wait for each other.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "meshwork/ops/kernels/blas/cpu_kernels.h"
#include "meshwork/runtime/cpu/worker_pool.h"
#include "meshwork/runtime/exec/backend.h"

namespace meshwork {

class CpuBackend : public Backend {
 public:
  // On a pool of its own, WorkerPool(workers, own_cores).
  explicit CpuBackend(int workers = WorkerPool::DefaultWorkers(), bool own_cores = true);
  // `pool` must outlive the backend.
  explicit CpuBackend(WorkerPool& pool);
  CpuBackend(const CpuBackend&) = delete;
  CpuBackend& operator=(const CpuBackend&) = delete;

  WorkerPool& pool() { return pool_; }
  int num_workers() const { return pool_.num_workers(); }

  std::string_view name() const override { return "CPU"; }
  bool Has(const OpRow& row) const override { return CpuKernelOf(row) != nullptr; }
  std::shared_ptr<Memory> memory() const override;
  absl::StatusOr<ExecutorMemory> PlanMemory(StepPlan plan, const PrepareOptions& options) const override;
  absl::StatusOr<std::unique_ptr<PreparedStep>> Prepare(StepPlan plan, std::vector<DTensor> variables,
                                                        const PrepareOptions& options) override;

 private:
  const std::unique_ptr<WorkerPool> own_;  // null if the pool was given
  WorkerPool& pool_;
};

}  // namespace meshwork
