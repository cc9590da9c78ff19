// PjrtBackend: the devices of a PJRT plugin, as XLA's for CPUs, GPUs and TPUs. Device d of the mesh is device d of the plugin.
//
//   MESHWORK_ASSIGN_OR_RETURN(const auto backend, PjrtBackend::Create("pjrt:/opt/pjrt_c_api_cpu_plugin.so:cpu_device_count=8"));
//   MESHWORK_ASSIGN_OR_RETURN(const auto executor, Executor::Create(program, *backend, options, &variables));
//
// The plugin compiles the local program as a whole (stablehlo/write.h), so the order of its ops, their fusion and the memory of
// what lies between them are the plugin's. Of a StepPlan it takes the program, and where arguments and outputs lie. Variables
// stay on the devices between steps, and a step writes their new values over the old ones (donation) unless it is atomic.
// docs/tpu.md says what is different from other backends.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/runtime/exec/backend.h"

namespace meshwork {

class PjrtClient;
class PjrtExecutable;
class PjrtMemory;

class PjrtBackend : public Backend {
 public:
  // `devices`: as PjrtSpec::Parse takes it. Errors: that of Parse, those of PjrtClient::Create.
  static absl::StatusOr<std::unique_ptr<PjrtBackend>> Create(std::string_view devices);
  ~PjrtBackend() override;

  int64_t num_devices() const;

  std::string_view name() const override { return "PJRT"; }
  // Of all: Prepare names the ops of a program that have no form.
  bool Has(const OpRow&) const override { return true; }
  std::shared_ptr<Memory> memory() const override;
  // Compiles the program, for the plugin says what it takes: all that a step needs besides its arguments, on all devices, as
  // shared_bytes; 0 if the plugin does not say. Variables are counted once per instance, as elsewhere, and each device that
  // shares one holds a copy of it. Prepare of the same program does not compile it again.
  absl::StatusOr<ExecutorMemory> PlanMemory(StepPlan plan, const PrepareOptions& options) const override;
  // Errors, besides: an op without a form in StableHLO (UNIMPLEMENTED); several domains, cross-device ops (UNIMPLEMENTED); more
  // devices than the plugin has; what the plugin's compiler says. fuse and the options of other hardware are ignored.
  absl::StatusOr<std::unique_ptr<PreparedStep>> Prepare(StepPlan plan, std::vector<DTensor> variables,
                                                        const PrepareOptions& options) override;

 private:
  explicit PjrtBackend(std::shared_ptr<const PjrtClient> client);
  absl::StatusOr<std::shared_ptr<const PjrtExecutable>> Compile(const StepPlan& plan,
                                                                const PrepareOptions& options) const;

  const std::shared_ptr<const PjrtClient> client_;
  const std::shared_ptr<PjrtMemory> memory_;
  mutable std::mutex mutex_;  // of what was compiled last
  mutable std::string last_module_;
  mutable std::shared_ptr<const PjrtExecutable> last_;
};

}  // namespace meshwork
