#ifdef MESHWORK_HAVE_CUDA
#include "meshwork/runtime/cuda/cuda_step.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "fmt/format.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/graph.h"
#include "meshwork/runtime/cuda/cuda_fault.h"

namespace meshwork {
namespace {

constexpr size_t kMostBindings = 4;
constexpr int64_t kPinnedAlignment = 256;  // of each host tensor
constexpr std::byte kNan{0xFF};

// Error: a launch has more blocks than a GPU takes.
absl::Status CheckGrids(const CudaLevel& level) {
  constexpr int64_t kMostBlocks = std::numeric_limits<int32_t>::max();
  for (const auto* actions : {&level.once, &level.actions})
    for (const CudaAction& action : *actions) {
      if (const auto* const kernel = std::get_if<KernelLaunch>(&action);
          kernel != nullptr && kernel->grid > kMostBlocks)
        return absl::UnimplementedError(fmt::format(
            "Prepare: {}: its kernel has {} blocks of threads, and a GPU launches {} at most; compute it in parts.",
            level.plan->graph->Describe(kernel->nodes.front().node), kernel->grid, kMostBlocks));
      if (const auto* const loop = std::get_if<LoopLaunch>(&action))
        for (const CudaLevel& body : loop->bodies) MESHWORK_RETURN_IF_ERROR(CheckGrids(body));
    }
  return absl::OkStatus();
}

}  // namespace

// ---- Prepared once.

absl::StatusOr<std::unique_ptr<PreparedStep>> CudaStep::Create(std::shared_ptr<const CudaContext> context,
                                                               StepPlan plan, std::vector<DTensor> variables,
                                                               const PrepareOptions& options,
                                                               std::unique_ptr<CudaRemotes> remotes) {
  std::unique_ptr<CudaStep> step(
      new CudaStep(std::move(plan), std::move(variables), options, std::move(remotes)));
  MESHWORK_RETURN_IF_ERROR(step->Prepare(std::move(context)));
  return step;
}

absl::Status CudaStep::Prepare(std::shared_ptr<const CudaContext> context) {
  // First, as it says so if a kernel has failed on the GPU before.
  MESHWORK_ASSIGN_OR_RETURN(stream_, CudaStream::Create(context));
  CudaKernels kernels;
  products_ = std::make_unique<CudaProducts>(context);
  convolutions_ = std::make_unique<CudaConvolutions>(context);
  MESHWORK_RETURN_IF_ERROR(PrepareFence());
  MESHWORK_RETURN_IF_ERROR(MakeRoot(kernels, context->most_shared_bytes()));
  if (remotes_ != nullptr) {
    MESHWORK_RETURN_IF_ERROR(PrepareRemotes(root_));
    MESHWORK_RETURN_IF_ERROR(remotes_->Allocate());
  }
  is_blocking_ = BlocksLaunches(options_.blocking_launches);
  sections_ = CutIntoSections(root_, /*may_be_graph=*/!measures() && !is_blocking_, remotes_read_host());
  if (measures()) profiler_ = std::make_unique<CudaProfiler>(root_, stream_, options_.trace_steps);
  MESHWORK_RETURN_IF_ERROR(Allocate());
  MESHWORK_ASSIGN_OR_RETURN(functions_,
                            CudaFunctions::Compile(stream_->shared_context(), plan_.graph->name, kernels));
  return NamingFault(RunOnce(), "Prepare");
}

absl::Status CudaStep::MakeRoot(CudaKernels& kernels, int64_t shared_bytes) {
  absl::Status failed;  // the first error
  // The result of `add` for a node: a library's number, or nothing. Notes an error in `failed`.
  const auto taking = [&](const StepPlan& plan, int node, const auto& add) {
    const MatmulPrecision precision =
        FactorsFitTf32(*plan.graph, node) ? MatmulPrecision::kTf32 : options_.matmul_precision;
    auto taken = failed.ok() ? add(precision) : decltype(add(precision))(std::nullopt);
    if (!taken.ok())
      failed = Annotate(taken.status(), fmt::format("Prepare: {}: ", plan.graph->Describe(node)));
    return taken.ok() ? *std::move(taken) : std::nullopt;
  };
  const TakeProduct take_product = [&](const StepPlan& plan, int node, const CudaProduct& product,
                                       const ProductAlignment& alignment) {
    return taking(plan, node,
                  [&](MatmulPrecision precision) { return products_->Add(product, alignment, precision); });
  };
  const TakeConvolution take_convolution = [&](const StepPlan& plan, int node,
                                               const CudaConvolution& convolution, int64_t alignment) {
    return taking(plan, node, [&](MatmulPrecision precision) {
      return convolutions_->Add(convolution, alignment, precision);
    });
  };
  root_ = MakeLevel(plan_, kernels,
                    {.fuse = options_.fuse,
                     .take_product = take_product,
                     .take_convolution = take_convolution,
                     .shared_bytes = shared_bytes,
                     .remotes_read_host = remotes_read_host()});
  MESHWORK_RETURN_IF_ERROR(failed);
  return CheckGrids(root_);
}

absl::Status CudaStep::PrepareFence() {
  for (const Step& step : plan_.steps) {
    const auto* const remote = std::get_if<RemoteStep>(&step);
    if (remote == nullptr || !remote->is_fence() || remote->kind == RemoteStep::Kind::kWait) continue;
    RemoteSpec spec{.where = "the start of a step"};
    for (const RemoteStep::Part& part : remote->sends) spec.sends.push_back({part.domain, 1});
    for (const RemoteStep::Part& part : remote->receives) spec.receives.push_back({part.domain, 1});
    Fence& fence = fence_.emplace();
    fence.bytes.resize(1 + spec.receives.size());
    fence.sends.assign(spec.sends.size(), fence.bytes.data());
    for (size_t i = 0; i < spec.receives.size(); ++i) fence.receives.push_back(&fence.bytes[1 + i]);
    MESHWORK_ASSIGN_OR_RETURN(fence.op, options_.transport->Prepare(std::move(spec)));
  }
  return absl::OkStatus();
}

absl::Status CudaStep::PrepareRemotes(CudaLevel& level) {
  std::map<int, size_t> numbers;  // by operation
  for (CudaAction& action : level.actions) {
    if (auto* const loop = std::get_if<LoopLaunch>(&action))
      for (CudaLevel& body : loop->bodies) MESHWORK_RETURN_IF_ERROR(PrepareRemotes(body));
    auto* const remote = std::get_if<RemoteLaunch>(&action);
    if (remote == nullptr) continue;
    const RemoteStep& step = *remote->step;
    const std::string where = level.plan->graph->Describe(step.node);
    if (step.kind != RemoteStep::Kind::kWait && !step.sums.empty()) {
      MESHWORK_ASSIGN_OR_RETURN(numbers[step.operation], remotes_->PrepareSums(where, step.sums));
    } else if (step.kind != RemoteStep::Kind::kWait) {
      RemoteSpec spec{.where = where};
      const auto part_of = [&](const RemoteStep::Part& part) {
        return RemotePart{part.domain, level.plan->buffers[static_cast<size_t>(part.buffer)].bytes};
      };
      for (const RemoteStep::Part& part : step.sends) spec.sends.push_back(part_of(part));
      for (const RemoteStep::Part& part : step.receives) spec.receives.push_back(part_of(part));
      MESHWORK_ASSIGN_OR_RETURN(numbers[step.operation], remotes_->Prepare(std::move(spec)));
    }
    remote->number = numbers.at(step.operation);
  }
  return absl::OkStatus();
}

CudaStep::~CudaStep() {
  // If a step has thrown, its operations may still wait for other domains.
  if (remotes_ != nullptr && stream_ != nullptr)
    if (const absl::Status reason = options_.transport->aborted(); !reason.ok()) remotes_->Abort(reason);
  // Work that is still on the stream may use the memory.
  if (stream_ != nullptr) stream_->Synchronize().IgnoreError();
}

absl::Status CudaStep::Allocate() {
  // Kernels are given the address even if the buffer is empty.
  const auto allocate = [&](int64_t bytes, CudaBuffer& buffer) {
    absl::StatusOr<CudaBuffer> made = CudaBuffer::Allocate(stream_, std::max<int64_t>(bytes, 1));
    if (made.ok()) buffer = *std::move(made);
    return Annotate(made.status(),
                    fmt::format("Prepare: {} needs {} for values: ", plan_.graph->name,
                                Count(root_.map.arena_bytes + root_.map.constant_bytes, "byte")));
  };
  MESHWORK_RETURN_IF_ERROR(allocate(root_.map.arena_bytes, arena_));
  MESHWORK_RETURN_IF_ERROR(allocate(root_.map.constant_bytes, constants_));
  MESHWORK_ASSIGN_OR_RETURN(
      workspace_, CudaBuffer::Allocate(stream_, std::max(products_->workspace_bytes(), root_.scratch_bytes)));
  MESHWORK_RETURN_IF_ERROR(Fill(*stream_, arena_.address(), std::byte{0}, arena_.bytes()));
  MESHWORK_RETURN_IF_ERROR(Fill(*stream_, constants_.address(), std::byte{0}, constants_.bytes()));
  int64_t pinned = 0;
  for (size_t s = 0; s < plan_.storages.size(); ++s) {
    const Storage& storage = plan_.storages[s];
    has_spares_ |= storage.kind == Storage::Kind::kSpare;
    const bool is_feed = storage.kind == Storage::Kind::kHostFeed;
    if (!is_feed && storage.kind != Storage::Kind::kHostOutput) continue;
    (is_feed ? host_feeds_ : host_outputs_).push_back({s, storage.index, storage.bytes, pinned});
    pinned += (storage.bytes + kPinnedAlignment - 1) / kPinnedAlignment * kPinnedAlignment;
  }
  MESHWORK_ASSIGN_OR_RETURN(pinned_, PinnedBuffer::Allocate(stream_->shared_context(), pinned + 1));
  return absl::OkStatus();
}

absl::Status CudaStep::RunOnce() {
  launcher_.emplace(CudaLauncher::Means{.stream = stream_,
                                        .functions = &functions_,
                                        .products = products_.get(),
                                        .convolutions = convolutions_.get(),
                                        .own = own(),
                                        .workspace = workspace_.address(),
                                        .predicate = pinned_.data() + pinned_.bytes() - 1,
                                        .profiler = profiler_.get(),
                                        .blocking = is_blocking_,
                                        .remotes = remotes_.get()});
  MESHWORK_RETURN_IF_ERROR(launcher_->EnqueueOnce(root_, BasesOfStep(root_, own(), variables_, {}, {}, {})));
  return stream_->Synchronize();
}

// ---- Bindings.

absl::StatusOr<CudaStep::Binding*> CudaStep::FindBinding(CudaBases bases) {
  const auto found = std::find_if(bindings_.begin(), bindings_.end(),
                                  [&](const Binding& binding) { return binding.bases == bases; });
  if (found != bindings_.end()) {
    std::rotate(bindings_.begin(), found, found + 1);
  } else {
    MESHWORK_ASSIGN_OR_RETURN(CudaTables tables,
                              CudaTables::Create(stream_, root_, bases, own(), functions_));
    if (bindings_.size() == kMostBindings) bindings_.pop_back();
    bindings_.push_front({std::move(bases), std::move(tables), {}});
    bindings_.front().graphs.resize(sections_.size());
  }
  Binding& binding = bindings_.front();
  for (size_t s = 0; s < sections_.size(); ++s) {
    if (!sections_[s].is_graph || binding.graphs[s].has_value()) continue;
    MESHWORK_ASSIGN_OR_RETURN(binding.graphs[s], CudaGraph::Capture(*stream_, [&] {
                                return EnqueueSection(binding, sections_[s]);
                              }));
  }
  return &binding;
}

// ---- A step.

absl::Status CudaStep::NamingFault(const absl::Status& status, std::string_view phase) const {
  const CudaContext& context = stream_->context();
  if (status.ok() || is_blocking_ || context.lost() == CUDA_SUCCESS) return status;
  return FaultOfStep(context, phase, plan_.graph->name);
}

int64_t CudaStep::BytesOf(const std::vector<HostTensor>& tensors) {
  int64_t bytes = 0;
  for (const HostTensor& tensor : tensors) bytes += tensor.bytes;
  return bytes;
}

absl::Status CudaStep::Run(std::span<const std::byte* const> feeds, std::span<std::byte* const> outputs,
                           std::span<const std::byte* const> staged) {
  MESHWORK_RETURN_IF_ERROR(made_.Check("CudaBackend"));
  absl::Status status = TryRun(feeds, outputs, staged);
  // Other domains must not go on with the results of a failed step.
  if (!status.ok() && remotes_ != nullptr) remotes_->Abort(status);
  return status;
}

// After it, all domains have begun this step, and ended the one before.
absl::Status CudaStep::PassFence() {
  wrote_spares_ = false;
  if (fence_.has_value()) MESHWORK_RETURN_IF_ERROR(fence_->op->Run(fence_->sends, fence_->receives));
  wrote_spares_ = has_spares_;
  return absl::OkStatus();
}

absl::Status CudaStep::TryRun(std::span<const std::byte* const> feeds, std::span<std::byte* const> outputs,
                              std::span<const std::byte* const> staged) {
  launcher_->ForgetDifference();
  // The operations across domains may belong to a group that was aborted. They would end at once, with data that
  // nobody sent.
  if (remotes_ != nullptr) MESHWORK_RETURN_IF_ERROR(options_.transport->aborted());
  MESHWORK_RETURN_IF_ERROR(PassFence());
  if (profiler_ != nullptr) MESHWORK_RETURN_IF_ERROR(profiler_->Start());
  MESHWORK_ASSIGN_OR_RETURN(Binding* const binding,
                            FindBinding(BasesOfStep(root_, own(), variables_, feeds, outputs, staged)));
  absl::Status ran = Enqueue(*binding, feeds, staged);
  if (ran.ok()) ran = NamingFault(launcher_->Await(), "Run");
  if (!ran.ok() && remotes_ != nullptr) remotes_->Abort(ran);
  // Enqueued work uses memory that the caller may free or write after the return, and pinned memory that the next
  // step writes.
  if (!ran.ok()) stream_->Drain().IgnoreError();
  MESHWORK_RETURN_IF_ERROR(ran);
  if (profiler_ != nullptr) MESHWORK_RETURN_IF_ERROR(profiler_->End());
  std::vector<HostCopy> copies;
  for (const HostTensor& output : host_outputs_)
    if (std::byte* const to = outputs[static_cast<size_t>(output.index)]; to != nullptr)
      copies.push_back({to, pinned_.data() + output.offset, output.bytes});
  copier_.Copy(copies);
  return launcher_->difference();
}

absl::Status CudaStep::Enqueue(const Binding& binding, std::span<const std::byte* const> feeds,
                               std::span<const std::byte* const> staged) {
  // Feeds lie in the arena, too.
  if (options_.poison_padding) MESHWORK_RETURN_IF_ERROR(Poison(binding.bases));
  MESHWORK_RETURN_IF_ERROR(EnqueueFeeds(binding.bases, feeds, staged));
  if (is_blocking_) MESHWORK_RETURN_IF_ERROR(stream_->Synchronize());
  for (size_t s = 0; s < sections_.size(); ++s) {
    const absl::Status launched = binding.graphs[s].has_value() ? binding.graphs[s]->Launch(*stream_)
                                                                : EnqueueSection(binding, sections_[s]);
    // An error in launching the first graph is that of earlier work, not of this step.
    MESHWORK_RETURN_IF_ERROR(s == 0 && binding.graphs[s].has_value() ? launched
                                                                     : NamingFault(launched, "Run"));
  }
  return absl::OkStatus();
}

absl::Status CudaStep::Poison(const CudaBases& bases) {
  MESHWORK_RETURN_IF_ERROR(Fill(*stream_, arena_.address(), kNan, arena_.bytes()));
  for (size_t s = 0; s < bases.size(); ++s) {
    const Storage& storage = plan_.storages[s];
    const bool is_written = storage.kind == Storage::Kind::kSpare || storage.kind == Storage::Kind::kOutput;
    if (is_written && bases[s] != 0) MESHWORK_RETURN_IF_ERROR(Fill(*stream_, bases[s], kNan, storage.bytes));
  }
  return absl::OkStatus();
}

absl::Status CudaStep::EnqueueFeeds(const CudaBases& bases, std::span<const std::byte* const> feeds,
                                    std::span<const std::byte* const> staged) {
  std::vector<HostTensor> copied;
  std::vector<HostCopy> copies;
  for (const HostTensor& feed : host_feeds_) {
    const auto index = static_cast<size_t>(feed.index);
    if (index < staged.size() && staged[index] != nullptr) continue;
    copied.push_back(feed);
    copies.push_back({pinned_.data() + feed.offset, feeds[index], feed.bytes});
  }
  MESHWORK_RETURN_IF_ERROR(copier_.Stage(copies, [&](size_t i, int64_t first, int64_t bytes) {
    return CopyToDevice(*stream_, bases[copied[i].storage] + static_cast<CUdeviceptr>(first),
                        copies[i].to + first, bytes);
  }));
  return profiler_ == nullptr ? absl::OkStatus() : profiler_->Copied(/*is_input=*/true, BytesOf(copied));
}

absl::Status CudaStep::EnqueueSection(const Binding& binding, const CudaSection& section) {
  MESHWORK_RETURN_IF_ERROR(
      launcher_->Enqueue(root_, section.begin, section.end, binding.bases, binding.tables));
  if (&section != &sections_.back()) return absl::OkStatus();
  for (const HostTensor& output : host_outputs_)
    if (binding.bases[output.storage] != 0)
      MESHWORK_RETURN_IF_ERROR(
          CopyToHost(*stream_, pinned_.data() + output.offset, binding.bases[output.storage], output.bytes));
  if (profiler_ != nullptr) return profiler_->Copied(/*is_input=*/false, BytesOf(host_outputs_));
  return absl::OkStatus();
}

ExecutorMemory CudaStep::memory() const {
  return {.shared_bytes = root_.map.arena_bytes,
          .constant_bytes = root_.map.constant_bytes,
          .num_instructions = static_cast<int>(plan_.steps.size())};
}

}  // namespace meshwork

#endif
