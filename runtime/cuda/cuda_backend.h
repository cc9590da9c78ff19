// CudaBackend: one GPU and its memory. All devices of the domain are on it.
//
//   MESHWORK_ASSIGN_OR_RETURN(const auto backend, CudaBackend::Create(0));
//   MESHWORK_ASSIGN_OR_RETURN(const auto executor, Executor::Create(program, *backend, options, &variables));
//
// The instances of a value lie one behind the other, and an op of several devices is one kernel, as on the CPU
// (runtime/plan/step_plan.h). Kernels are compiled for the program when a step is prepared, unless their code is on the
// disk already: in $MESHWORK_CUDA_CACHE, or ~/.cache/meshwork/cuda. A step is a graph of the driver, which is
// launched as a whole. A branch, or a loop whose length the data decide, reads predicates from the GPU: it is
// launched kernel by kernel, between graphs (runtime/cuda/cuda_sections.h). Host tensors go through pinned memory,
// large ones in pieces that several threads copy.
//
// The first run of a step makes tables and a graph on the GPU, and so does a run with DTensors at new addresses or
// with other outputs; it may fail for lack of memory. The last four are kept. With check_replicas, a step that has
// replicas to compare is not one graph. poison_padding leaves the padding of variables as it is.
//
// With a Transport the GPU is one of several domains (mesh/placement.h), all of them GPUs of one architecture, of this
// process or of several. Their collectives go from GPU to GPU by NCCL, within the graph of a step. If NCCL is missing,
// or two domains share a GPU, they go through the memory of the process and the transport, and a step is a graph for
// each part between two collectives. The numbers are the same.
//
// Cross-device ops that are algorithms (runtime/plan/cross_device_algorithm.h) are copies and sums of the plan, which
// kernels make.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/runtime/exec/backend.h"

namespace meshwork {

class CudaContext;
class GpuGroups;

struct CudaBackendOptions {
  // How data goes to GPUs of other domains. All domains must choose the same.
  enum class Way : uint8_t {
    kAuto,  // by NCCL where it can
    kNccl,  // by NCCL, or an error that says what is missing
    kHost,  // by the process and the transport
  };
  Way way = Way::kAuto;
  // With NCCL: the longest that a domain waits for the others in a step before it aborts. 0: the transport's deadline.
  std::chrono::milliseconds deadline = std::chrono::milliseconds(0);
};

class CudaBackend : public Backend {
 public:
  // On GPU `ordinal` of this machine. Errors: this build has no CUDA; those of LoadCudaApi and CudaContext::Create.
  static absl::StatusOr<std::unique_ptr<CudaBackend>> Create(int ordinal = 0,
                                                             const CudaBackendOptions& options = {});
  // Error: what CUDA reports.
  static absl::StatusOr<std::unique_ptr<CudaBackend>> Create(std::shared_ptr<const CudaContext> context,
                                                             const CudaBackendOptions& options = {});
  ~CudaBackend() override;

  std::string_view name() const override { return "CUDA"; }
  bool Has(const OpRow& row) const override;
  std::shared_ptr<Memory> memory() const override { return memory_; }
  bool sums_domains() const override { return true; }
  absl::StatusOr<ExecutorMemory> PlanMemory(StepPlan plan, const PrepareOptions& options) const override;
  // All domains call it at the same time. Errors, besides: the GPUs of other
  // domains do not fit this one (docs/gpu.md); NVRTC does not compile a kernel; the GPU has not enough memory
  // (RESOURCE_EXHAUSTED), which says what the plan needs.
  absl::StatusOr<std::unique_ptr<PreparedStep>> Prepare(StepPlan plan, std::vector<DTensor> variables,
                                                        const PrepareOptions& options) override;

 private:
  CudaBackend(std::shared_ptr<const CudaContext> context, std::shared_ptr<Memory> memory,
              const CudaBackendOptions& options);

  [[maybe_unused]] const std::shared_ptr<const CudaContext> context_;  // a build without CUDA has none
  const std::shared_ptr<Memory> memory_;
  std::shared_ptr<GpuGroups> groups_;  // shared, as a build without CUDA does not know the type
};

}  // namespace meshwork
