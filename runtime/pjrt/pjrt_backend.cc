#include "meshwork/runtime/pjrt/pjrt_backend.h"

#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/runtime/pjrt/pjrt_client.h"
#include "meshwork/runtime/pjrt/pjrt_memory.h"
#include "meshwork/runtime/pjrt/pjrt_step.h"
#include "meshwork/stablehlo/write.h"

namespace meshwork {

PjrtBackend::PjrtBackend(std::shared_ptr<const PjrtClient> client)
    : client_(std::move(client)), memory_(std::make_shared<PjrtMemory>(client_)) {}
PjrtBackend::~PjrtBackend() = default;

int64_t PjrtBackend::num_devices() const { return client_->num_devices(); }
std::shared_ptr<Memory> PjrtBackend::memory() const { return memory_; }

absl::StatusOr<std::unique_ptr<PjrtBackend>> PjrtBackend::Create(std::string_view devices) {
  MESHWORK_ASSIGN_OR_RETURN(const PjrtSpec spec, PjrtSpec::Parse(devices));
  MESHWORK_ASSIGN_OR_RETURN(std::shared_ptr<const PjrtClient> client, PjrtClient::Create(spec));
  return std::unique_ptr<PjrtBackend>(new PjrtBackend(std::move(client)));
}

absl::StatusOr<std::shared_ptr<const PjrtExecutable>> PjrtBackend::Compile(
    const StepPlan& plan, const PrepareOptions& options) const {
  if (!plan.domain.is_only())
    return absl::UnimplementedError(
        "PJRT: the devices of the mesh are spread over several processes; one process runs all devices of a plugin here.");
  if (options.cross_device_ops != nullptr)
    return absl::UnimplementedError(
        "PJRT: cross_device_ops say how sums between devices are made, and the plugin makes them its own way; leave them out.");
  const Graph& program = *plan.program;
  MESHWORK_ASSIGN_OR_RETURN(std::string module, WriteStableHlo(program));
  const std::lock_guard lock(mutex_);
  if (last_ != nullptr && module == last_module_) return last_;
  last_ = nullptr;
  MESHWORK_ASSIGN_OR_RETURN(
      last_, PjrtExecutable::Compile(client_, module, program.name, program.mesh().num_devices()));
  last_module_ = std::move(module);
  return last_;
}

absl::StatusOr<ExecutorMemory> PjrtBackend::PlanMemory(StepPlan plan, const PrepareOptions& options) const {
  MESHWORK_ASSIGN_OR_RETURN(const std::shared_ptr<const PjrtExecutable> executable, Compile(plan, options));
  return MemoryOf(*executable);
}

absl::StatusOr<std::unique_ptr<PreparedStep>> PjrtBackend::Prepare(StepPlan plan,
                                                                   std::vector<DTensor> variables,
                                                                   const PrepareOptions& options) {
  MESHWORK_ASSIGN_OR_RETURN(std::shared_ptr<const PjrtExecutable> executable, Compile(plan, options));
  return PjrtStep::Create(client_, memory_, std::move(executable), std::move(plan), std::move(variables),
                          options);
}

}  // namespace meshwork
