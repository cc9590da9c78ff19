// CudaStep: a step that runs on one GPU, which may be one of several domains.
//
// Its launches are graphs (runtime/cuda/cuda_sections.h). If the domains are GPUs that reach each other
// (CudaRemotes::is_captured), a step whose loops need no decision of the process is one graph.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/base/fork.h"
#include "meshwork/runtime/cuda/cuda_addresses.h"
#include "meshwork/runtime/cuda/cuda_buffer.h"
#include "meshwork/runtime/cuda/cuda_context.h"
#include "meshwork/runtime/cuda/cuda_functions.h"
#include "meshwork/runtime/cuda/cuda_fusion.h"
#include "meshwork/runtime/cuda/cuda_graph.h"
#include "meshwork/runtime/cuda/cuda_launcher.h"
#include "meshwork/runtime/cuda/cuda_level.h"
#include "meshwork/runtime/cuda/cuda_products.h"
#include "meshwork/runtime/cuda/cuda_profiler.h"
#include "meshwork/runtime/cuda/cuda_remotes.h"
#include "meshwork/runtime/cuda/cuda_sections.h"
#include "meshwork/runtime/cuda/cuda_stream.h"
#include "meshwork/runtime/cuda/cuda_tables.h"
#include "meshwork/runtime/cuda/host_copier.h"
#include "meshwork/runtime/exec/backend.h"

namespace meshwork {

class CudaStep : public PreparedStep {
 public:
  // As Backend::Prepare. `remotes`: for the operations across domains; null if there is one domain.
  static absl::StatusOr<std::unique_ptr<PreparedStep>> Create(std::shared_ptr<const CudaContext> context,
                                                              StepPlan plan, std::vector<DTensor> variables,
                                                              const PrepareOptions& options,
                                                              std::unique_ptr<CudaRemotes> remotes);
  ~CudaStep() override;

  absl::Status Run(std::span<const std::byte* const> feeds, std::span<std::byte* const> outputs,
                   std::span<const std::byte* const> staged) override;
  bool wrote_spares() const override { return wrote_spares_; }
  ExecutorMemory memory() const override;
  meshwork::Profile Profile() const override {
    return profiler_ == nullptr ? meshwork::Profile() : profiler_->profile();
  }
  meshwork::Trace Trace() const override {
    return profiler_ == nullptr ? meshwork::Trace() : profiler_->ReadTrace();
  }
  void ClearProfile() override {
    if (profiler_ != nullptr) profiler_->Clear();
  }

 private:
  // Everything that depends on the addresses of DTensors and on which outputs are wanted. A step has several
  // bindings, because variables and their spares swap places.
  struct Binding {
    CudaBases bases;
    CudaTables tables;
    std::vector<std::optional<CudaGraph>> graphs;  // per section; nothing where it is none
  };
  // The operation that begins a step of several domains (runtime/plan/fence.h).
  struct Fence {
    std::unique_ptr<RemoteOp> op;
    std::vector<std::byte> bytes;
    std::vector<const std::byte*> sends;
    std::vector<std::byte*> receives;
  };

  CudaStep(StepPlan plan, std::vector<DTensor> variables, const PrepareOptions& options,
           std::unique_ptr<CudaRemotes> remotes)
      : plan_(PlanLaunches(std::move(plan), options.fuse)),
        variables_(std::move(variables)),
        options_(options),
        remotes_(std::move(remotes)) {}

  absl::Status Prepare(std::shared_ptr<const CudaContext> context);
  absl::Status MakeRoot(CudaKernels& kernels, int64_t shared_bytes);
  absl::Status PrepareFence();
  // Prepares operations in the order of the program, which is the same in all domains.
  absl::Status PrepareRemotes(CudaLevel& level);
  absl::Status Allocate();
  absl::Status RunOnce();

  bool remotes_read_host() const { return remotes_ != nullptr && !remotes_->is_captured(); }
  CudaOwnMemory own() const { return {.arena = arena_.address(), .constants = constants_.address()}; }
  bool measures() const { return options_.profile || options_.trace_steps > 0; }
  // The error of work on the stream; if a kernel has failed and is not named yet, that of FaultOfStep. `phase`: as
  // there.
  absl::Status NamingFault(const absl::Status& status, std::string_view phase) const;
  absl::StatusOr<Binding*> FindBinding(CudaBases bases);

  absl::Status TryRun(std::span<const std::byte* const> feeds, std::span<std::byte* const> outputs,
                      std::span<const std::byte* const> staged);
  absl::Status PassFence();
  // Puts the whole step on the stream: feeds, launches, outputs. `feeds` are read before it returns; staged ones are
  // already at the addresses of the binding.
  absl::Status Enqueue(const Binding& binding, std::span<const std::byte* const> feeds,
                       std::span<const std::byte* const> staged);
  absl::Status Poison(const CudaBases& bases);
  absl::Status EnqueueFeeds(const CudaBases& bases, std::span<const std::byte* const> feeds,
                            std::span<const std::byte* const> staged);
  // Puts a section on the stream, the last one with copies of the outputs. A graph may hold all of this.
  absl::Status EnqueueSection(const Binding& binding, const CudaSection& section);

  // A host tensor: its image on the GPU, and its place in the pinned memory.
  struct HostTensor {
    size_t storage = 0;
    int index = 0;  // of the argument or the output
    int64_t bytes = 0, offset = 0;
  };
  static int64_t BytesOf(const std::vector<HostTensor>& tensors);

  const ForkMark made_;  // the driver does not work in a child of a fork
  const StepPlan plan_;
  std::vector<DTensor> variables_;
  const PrepareOptions options_;
  // Null if there is one domain.
  const std::unique_ptr<CudaRemotes> remotes_;
  std::optional<Fence> fence_;
  CudaLevel root_;
  std::vector<CudaSection> sections_;  // of the root
  CudaFunctions functions_;
  std::shared_ptr<const CudaStream> stream_;
  // Destroyed before their stream.
  std::unique_ptr<CudaProducts> products_;
  std::unique_ptr<CudaConvolutions> convolutions_;
  CudaBuffer arena_, constants_, workspace_;
  // Host tensors, and a last byte for predicates. Not written before the stream is waited for, as transfers may still
  // read it.
  PinnedBuffer pinned_;
  HostCopier copier_;
  std::vector<HostTensor> host_feeds_, host_outputs_;
  std::deque<Binding> bindings_;  // the last used one first
  bool is_blocking_ = false, has_spares_ = false, wrote_spares_ = false;
  std::unique_ptr<CudaProfiler> profiler_;  // null unless it is asked for
  std::optional<CudaLauncher> launcher_;    // made when the step is prepared
};

}  // namespace meshwork
