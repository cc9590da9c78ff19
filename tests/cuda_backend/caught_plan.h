// The plan that an executor gives its backend.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/ops/kernels/cuda/cuda_kernel.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/runtime/exec/executor.h"
#include "meshwork/spmd/compile.h"

namespace meshwork {

// Keeps the plans that it gets, and runs none of them.
class PlanCatcher : public Backend {
 public:
  std::string_view name() const override { return "plans"; }
  bool Has(const OpRow& row) const override { return HasCudaKernel(row); }
  std::shared_ptr<Memory> memory() const override { return cpu_.memory(); }
  absl::StatusOr<ExecutorMemory> PlanMemory(StepPlan, const PrepareOptions&) const override {
    return ExecutorMemory();
  }
  absl::StatusOr<std::unique_ptr<PreparedStep>> Prepare(StepPlan plan, std::vector<DTensor>,
                                                        const PrepareOptions&) override {
    plans.push_back(std::move(plan));
    return absl::CancelledError("a plan is all that is wanted");
  }

  std::vector<StepPlan> plans;

 private:
  CpuBackend cpu_{1};
};

inline StepPlan CaughtPlanOf(const Graph& graph) {
  const Program program = Compile(graph).value();
  PlanCatcher catcher;
  std::map<std::string, DTensor> state;
  Executor::Create(program, catcher, {}, &state).status().IgnoreError();
  return std::move(catcher.plans.at(0));
}

}  // namespace meshwork
