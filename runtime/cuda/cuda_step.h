// CudaStep: a step that runs on one GPU.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/base/fork.h"
#include "meshwork/runtime/backend.h"
#include "meshwork/runtime/cuda/cuda_buffer.h"
#include "meshwork/runtime/cuda/cuda_fusion.h"
#include "meshwork/runtime/cuda/cuda_graph.h"
#include "meshwork/runtime/cuda/cuda_level.h"
#include "meshwork/runtime/cuda/cuda_module.h"
#include "meshwork/runtime/cuda/cuda_products.h"
#include "meshwork/runtime/cuda/cuda_profiler.h"
#include "meshwork/runtime/cuda/host_copier.h"

namespace meshwork {

class CudaStep : public PreparedStep {
 public:
  // As Backend::Prepare. REQUIRES: no transport and no cross-device op in `options`.
  static absl::StatusOr<std::unique_ptr<PreparedStep>> Create(std::shared_ptr<const CudaContext> context,
                                                              StepPlan plan, std::vector<DTensor> variables,
                                                              const PrepareOptions& options);
  ~CudaStep() override;

  absl::Status Run(std::span<const std::byte* const> feeds, std::span<std::byte* const> outputs) override;
  bool wrote_spares() const override { return wrote_spares_; }
  ExecutorMemory memory() const override;
  meshwork::Profile Profile() const override {
    return profiler_ == nullptr ? meshwork::Profile() : profiler_->profile();
  }
  meshwork::Trace Trace() const override { return {}; }
  void ClearProfile() override {
    if (profiler_ != nullptr) profiler_->Clear();
  }

 private:
  using Bases = std::vector<CUdeviceptr>;  // per storage of a level; 0: nowhere

  // The tables of all transfers of the step, at its addresses, and which section of them a launch does; the same of parts.
  struct Tables {
    struct Launch {
      int64_t first = 0, count = 0;
    };
    std::map<const TransferLaunch*, Launch> launches;
    CudaBuffer transfers, numbers;
    std::map<const PartsLaunch*, int64_t> first_parts;
    CudaBuffer parts;
  };
  // What follows from the addresses of DTensors and from which outputs are wanted. Several, because variables and their
  // spares change places.
  struct Binding {
    Bases bases;
    Tables tables;
    std::optional<CudaGraph> graph;
  };

  CudaStep(StepPlan plan, std::vector<DTensor> variables, const PrepareOptions& options)
      : plan_(options.fuse ? OrderForFusion(std::move(plan)) : std::move(plan)),
        variables_(std::move(variables)),
        options_(options) {}

  absl::Status Prepare(std::shared_ptr<const CudaContext> context);
  absl::Status MakeRoot(CudaKernels& kernels, int64_t shared_bytes);
  absl::Status Compile(const CudaKernels& kernels);
  absl::Status Allocate();
  absl::Status RunOnce();

  Bases BasesOf(std::span<const std::byte* const> feeds, std::span<std::byte* const> outputs);
  Bases BasesOf(const CudaLevel& body, const LoopLaunch& loop, const Bases& outside) const;
  absl::StatusOr<Binding*> FindBinding(Bases bases);
  absl::StatusOr<Tables> MakeTables(const Bases& bases) const;

  // Puts the whole step on the stream: feeds, launches, outputs. `feeds` are read before it returns.
  absl::Status Enqueue(const Binding& binding, std::span<const std::byte* const> feeds);
  absl::Status Poison(const Bases& bases);
  absl::Status EnqueueFeeds(const Bases& bases, std::span<const std::byte* const> feeds);
  // What is behind the feeds, which a graph may hold; and a level of it.
  absl::Status EnqueueLaunches(const Binding& binding);
  absl::Status Enqueue(const CudaLevel& level, const Bases& bases, const Tables& tables);
  absl::Status EnqueueLoop(const LoopLaunch& loop, const Bases& bases, const Tables& tables);
  absl::Status Launch(const CudaLevel& level, const KernelLaunch& launch, const Bases& bases);
  absl::Status Launch(const CudaLevel& level, const ProductLaunch& launch, const Bases& bases);
  absl::Status Launch(const CudaLevel& level, const PartsLaunch& launch, const Bases& bases,
                      const Tables& tables);
  absl::Status Launch(const TransferLaunch& launch, const Tables& tables);
  void CheckAlignment(size_t kernel, CUdeviceptr address) const;
  absl::StatusOr<bool> IsTrue(CUdeviceptr predicate);
  // Notes the first difference.
  absl::Status Compare(const CompareStep& compare, const Bases& bases);

  // A host tensor: its image on the GPU, and its place in the pinned memory.
  struct HostTensor {
    size_t storage = 0;
    int index = 0;  // of the argument or the output
    int64_t bytes = 0, offset = 0;
  };
  static int64_t BytesOf(const std::vector<HostTensor>& tensors);

  const ForkMark made_;  // the driver knows no child of this process
  const StepPlan plan_;
  std::vector<DTensor> variables_;
  const PrepareOptions options_;
  CudaLevel root_;
  std::vector<unsigned> threads_;        // of a block of each kernel
  std::vector<unsigned> shared_bytes_;   // of a block of each
  std::vector<int64_t> alignments_;      // of the pointers of each
  std::vector<CudaFunction> functions_;  // the same
  std::unique_ptr<CudaProducts> products_;
  std::shared_ptr<const CudaStream> stream_;
  CudaBuffer arena_, constants_, workspace_;
  // Host tensors; the last byte is for predicates. Nobody writes it before the stream is waited for: transfers may read it.
  PinnedBuffer pinned_;
  HostCopier copier_;
  std::vector<HostTensor> host_feeds_, host_outputs_;
  std::deque<Binding> bindings_;  // the last used one first
  bool is_graph_ = true, has_spares_ = false, wrote_spares_ = false;
  std::unique_ptr<CudaProfiler> profiler_;  // null unless it is asked for
  absl::Status difference_;                 // of replicas, in this step
};

}  // namespace meshwork
