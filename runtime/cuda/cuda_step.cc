#ifdef MESHWORK_HAVE_CUDA
#include "meshwork/runtime/cuda/cuda_step.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/kernels/cuda/parts.h"
#include "meshwork/kernels/cuda/transfers.h"
#include "meshwork/runtime/cuda/cuda_compile.h"
#include "meshwork/runtime/replicas.h"

namespace meshwork {
namespace {

constexpr size_t kMostBindings = 4;
// A graph takes some hundred bytes for a node.
constexpr int64_t kMostNodes = 20000;
constexpr int64_t kPinnedAlignment = 256;  // of each host tensor
constexpr std::byte kNan{0xFF};

CUdeviceptr AddressOf(const std::byte* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

CUdeviceptr At(const std::vector<CUdeviceptr>& bases, const DeviceAddress& address) {
  return bases[static_cast<size_t>(address.storage)] + static_cast<CUdeviceptr>(address.offset);
}

// Of the level with its bodies.
int64_t NodesOf(const CudaLevel& level) {
  int64_t count = 0;
  for (const CudaAction& action : level.actions) {
    const auto* const loop = std::get_if<LoopLaunch>(&action);
    if (loop == nullptr) {
      ++count;
      continue;
    }
    for (const CudaLevel& body : loop->bodies)
      count += std::min(kMostNodes, std::max<int64_t>(loop->length, 1)) * NodesOf(body);
    count = std::min(count, 2 * kMostNodes);
  }
  return count;
}

}  // namespace

// ---- Prepared once.

absl::StatusOr<std::unique_ptr<PreparedStep>> CudaStep::Create(std::shared_ptr<const CudaContext> context,
                                                               StepPlan plan, std::vector<DTensor> variables,
                                                               const PrepareOptions& options) {
  std::unique_ptr<CudaStep> step(new CudaStep(std::move(plan), std::move(variables), options));
  MESHWORK_RETURN_IF_ERROR(step->Prepare(std::move(context)));
  return step;
}

absl::Status CudaStep::Prepare(std::shared_ptr<const CudaContext> context) {
  CudaKernels kernels;
  products_ = std::make_unique<CudaProducts>(context);
  MESHWORK_RETURN_IF_ERROR(MakeRoot(kernels, context->most_shared_bytes()));
  is_graph_ = !root_.reads_host && NodesOf(root_) <= kMostNodes && !options_.profile;
  MESHWORK_ASSIGN_OR_RETURN(stream_, CudaStream::Create(std::move(context)));
  if (options_.profile) profiler_ = std::make_unique<CudaProfiler>(root_, stream_);
  MESHWORK_RETURN_IF_ERROR(Allocate());
  MESHWORK_RETURN_IF_ERROR(Compile(kernels));
  return RunOnce();
}

absl::Status CudaStep::MakeRoot(CudaKernels& kernels, int64_t shared_bytes) {
  absl::Status failed;  // the first error
  const TakeProduct take = [&](const StepPlan& plan, int node, const CudaProduct& product,
                               const ProductAlignment& alignment) -> std::optional<size_t> {
    if (!failed.ok()) return std::nullopt;
    const MatmulPrecision precision =
        FactorsFitTf32(*plan.graph, node) ? MatmulPrecision::kTf32 : options_.matmul_precision;
    const absl::StatusOr<std::optional<size_t>> number = products_->Add(product, alignment, precision);
    if (number.ok()) return *number;
    failed = Annotate(number.status(), fmt::format("Prepare: {}: ", plan.graph->Describe(node)));
    return std::nullopt;
  };
  root_ =
      MakeLevel(plan_, kernels, {.fuse = options_.fuse, .take_product = take, .shared_bytes = shared_bytes});
  return failed;
}

CudaStep::~CudaStep() {
  // What the stream still has may use the memory.
  if (stream_ != nullptr) stream_->Synchronize().IgnoreError();
}

absl::Status CudaStep::Compile(const CudaKernels& kernels) {
  if (kernels.all().empty()) return absl::OkStatus();
  CudaSource source{.name = plan_.graph->name + ".cu", .text = CudaSourceOf(kernels.all())};
  for (const std::string_view option : kCudaOptions) source.options.emplace_back(option);
  MESHWORK_ASSIGN_OR_RETURN(const std::shared_ptr<const CudaModule> module,
                            CudaModule::Compile(stream_->shared_context(), source));
  for (const CudaKernel& kernel : kernels.all()) {
    MESHWORK_ASSIGN_OR_RETURN(CudaFunction function, module->GetKernel(kernel.name));
    if (kernel.shared_bytes > 0)
      MESHWORK_RETURN_IF_ERROR(function.AllowSharedBytes(static_cast<int>(kernel.shared_bytes)));
    functions_.push_back(std::move(function));
    shared_bytes_.push_back(static_cast<unsigned>(kernel.shared_bytes));
    threads_.push_back(static_cast<unsigned>(kernel.threads));
    alignments_.push_back(kernel.alignment);
  }
  return absl::OkStatus();
}

absl::Status CudaStep::Allocate() {
  // An address is given to kernels even if nothing is behind it.
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
  const auto run = [&](const auto& self, const CudaLevel& level, const Bases& bases) -> absl::Status {
    for (const CudaAction& action : level.once) {
      const auto* const product = std::get_if<ProductLaunch>(&action);
      MESHWORK_RETURN_IF_ERROR(product == nullptr ? Launch(level, std::get<KernelLaunch>(action), bases)
                                                  : Launch(level, *product, bases));
    }
    for (const CudaAction& action : level.actions)
      if (const auto* const loop = std::get_if<LoopLaunch>(&action))
        for (const CudaLevel& body : loop->bodies)
          MESHWORK_RETURN_IF_ERROR(self(self, body, BasesOf(body, *loop, bases)));
    return absl::OkStatus();
  };
  MESHWORK_RETURN_IF_ERROR(run(run, root_, BasesOf({}, {})));
  return stream_->Synchronize();
}

// ---- Addresses.

CudaStep::Bases CudaStep::BasesOf(std::span<const std::byte* const> feeds,
                                  std::span<std::byte* const> outputs) {
  Bases bases(plan_.storages.size(), 0);
  for (size_t s = 0; s < bases.size(); ++s) {
    const Storage& storage = plan_.storages[s];
    const auto index = static_cast<size_t>(storage.index);
    const StorageMap::Place& place = root_.map.places[s];
    switch (storage.kind) {
      case Storage::Kind::kTemporary:
      case Storage::Kind::kHostFeed:
      case Storage::Kind::kHostOutput:
        bases[s] = arena_.address() + static_cast<CUdeviceptr>(place.offset);
        break;
      case Storage::Kind::kConstant:
        bases[s] = constants_.address() + static_cast<CUdeviceptr>(place.offset);
        break;
      case Storage::Kind::kVariable:
        if (variables_[index].valid()) bases[s] = AddressOf(variables_[index].instance(0));
        else if (index < feeds.size()) bases[s] = AddressOf(feeds[index]);
        break;
      case Storage::Kind::kSpare:
        if (variables_[index].has_spare()) bases[s] = AddressOf(variables_[index].spare(0));
        break;
      case Storage::Kind::kFeed:
        if (index < feeds.size()) bases[s] = AddressOf(feeds[index]);
        break;
      case Storage::Kind::kOutput:
        if (index < outputs.size()) bases[s] = AddressOf(outputs[index]);
        break;
    }
    // Nobody has asked for it.
    if (storage.kind == Storage::Kind::kHostOutput && (index >= outputs.size() || outputs[index] == nullptr))
      bases[s] = 0;
  }
  return bases;
}

CudaStep::Bases CudaStep::BasesOf(const CudaLevel& body, const LoopLaunch& loop, const Bases& outside) const {
  Bases bases(body.plan->storages.size(), 0);
  for (size_t s = 0; s < bases.size(); ++s) {
    const StorageMap::Place& place = body.map.places[s];
    const auto offset = static_cast<CUdeviceptr>(place.offset);
    switch (place.kind) {
      case StorageMap::Place::Kind::kArena: bases[s] = arena_.address() + offset; break;
      case StorageMap::Place::Kind::kConstant: bases[s] = constants_.address() + offset; break;
      case StorageMap::Place::Kind::kBound: {
        const DeviceAddress& argument = loop.arguments[static_cast<size_t>(body.plan->storages[s].index)];
        if (argument.storage >= 0) bases[s] = At(outside, argument);
        break;
      }
    }
  }
  return bases;
}

absl::StatusOr<CudaStep::Binding*> CudaStep::FindBinding(Bases bases) {
  const auto found = std::find_if(bindings_.begin(), bindings_.end(),
                                  [&](const Binding& binding) { return binding.bases == bases; });
  if (found != bindings_.end()) {
    std::rotate(bindings_.begin(), found, found + 1);
  } else {
    MESHWORK_ASSIGN_OR_RETURN(Tables tables, MakeTables(bases));
    if (bindings_.size() == kMostBindings) bindings_.pop_back();
    bindings_.push_front({std::move(bases), std::move(tables), std::nullopt});
  }
  Binding& binding = bindings_.front();
  if (is_graph_ && !binding.graph.has_value()) {
    MESHWORK_ASSIGN_OR_RETURN(binding.graph,
                              CudaGraph::Capture(*stream_, [&] { return EnqueueLaunches(binding); }));
  }
  return &binding;
}

absl::StatusOr<CudaStep::Tables> CudaStep::MakeTables(const Bases& of_root) const {
  Tables tables;
  std::vector<CudaTransfer> transfers;
  std::vector<int64_t> numbers;
  const auto add = [&](const TransferLaunch& launch, const Bases& bases) {
    tables.launches[&launch] = {std::ssize(transfers), std::ssize(launch.transfers)};
    int64_t block = 0;
    for (size_t i = 0; i < launch.transfers.size(); ++i) {
      const BoxCopy& box = launch.transfers[i].box;
      CudaTransfer transfer{.first_block = block,
                            .elements = box.elements(),
                            .run = box.dims().empty() ? box.elements() : box.run()};
      block += (box.elements() + kElementsPerTransferBlock - 1) / kElementsPerTransferBlock;
      transfer.from_offset = box.from_offset();
      transfer.to_offset = box.to_offset();
      transfer.num_dims = std::ssize(box.dims());
      transfer.dims = std::ssize(numbers);
      for (const BoxCopy::Dim& dim : box.dims())
        numbers.insert(numbers.end(), {dim.count, dim.from_stride, dim.to_stride});
      const std::vector<DeviceAddress>& addresses = launch.addresses[i];
      transfer.to = At(bases, addresses[0]);
      transfer.num_sources = std::ssize(addresses) - 1;
      transfer.sources = std::ssize(numbers);
      for (size_t a = 1; a < addresses.size(); ++a)
        numbers.push_back(static_cast<int64_t>(At(bases, addresses[a])));
      std::memcpy(&transfer.fill, launch.transfers[i].fill.data(), sizeof(transfer.fill));
      transfers.push_back(transfer);
    }
  };
  std::vector<CudaPart> parts;
  const auto add_parts = [&](const PartsLaunch& launch, const Bases& bases) {
    tables.first_parts[&launch] = std::ssize(parts);
    int64_t block = 0;
    for (const PartsLaunch::Part& of : launch.parts) {
      CudaPart& part = parts.emplace_back();
      part.first_block = block;
      block += (of.elements + launch.per_block - 1) / launch.per_block;
      part.end_block = block;
      part.elements = of.elements;
      for (size_t p = 0; p < of.pointers.size(); ++p) {
        part.pointers[p] = At(bases, of.pointers[p]);
        CheckAlignment(launch.kernel, part.pointers[p]);
      }
    }
  };
  const auto walk = [&](const auto& self, const CudaLevel& level, const Bases& bases) -> void {
    for (const CudaAction& action : level.actions) {
      if (const auto* const launch = std::get_if<TransferLaunch>(&action)) add(*launch, bases);
      if (const auto* const launch = std::get_if<PartsLaunch>(&action)) add_parts(*launch, bases);
      if (const auto* const loop = std::get_if<LoopLaunch>(&action))
        for (const CudaLevel& body : loop->bodies) self(self, body, BasesOf(body, *loop, bases));
    }
  };
  walk(walk, root_, of_root);
  const auto upload = [&](const auto& table, CudaBuffer& to) -> absl::Status {
    const auto bytes = static_cast<int64_t>(table.size() * sizeof(table[0]));
    MESHWORK_ASSIGN_OR_RETURN(to, CudaBuffer::Allocate(stream_, std::max<int64_t>(bytes, 1)));
    return CopyToDevice(*stream_, to.address(), table.data(), bytes);
  };
  MESHWORK_RETURN_IF_ERROR(upload(transfers, tables.transfers));
  MESHWORK_RETURN_IF_ERROR(upload(numbers, tables.numbers));
  MESHWORK_RETURN_IF_ERROR(upload(parts, tables.parts));
  MESHWORK_RETURN_IF_ERROR(stream_->Synchronize());
  return tables;
}

// ---- A step.

int64_t CudaStep::BytesOf(const std::vector<HostTensor>& tensors) {
  int64_t bytes = 0;
  for (const HostTensor& tensor : tensors) bytes += tensor.bytes;
  return bytes;
}

absl::Status CudaStep::Run(std::span<const std::byte* const> feeds, std::span<std::byte* const> outputs) {
  MESHWORK_RETURN_IF_ERROR(made_.Check("CudaBackend"));
  wrote_spares_ = has_spares_;
  difference_ = absl::OkStatus();
  if (profiler_ != nullptr) MESHWORK_RETURN_IF_ERROR(profiler_->Start());
  MESHWORK_ASSIGN_OR_RETURN(Binding* const binding, FindBinding(BasesOf(feeds, outputs)));
  const absl::Status enqueued = Enqueue(*binding, feeds);
  // What was enqueued uses memory that the caller may free, or write, from here on; and pinned memory, which the next step
  // writes.
  const absl::Status ended = stream_->Synchronize();
  MESHWORK_RETURN_IF_ERROR(enqueued);
  MESHWORK_RETURN_IF_ERROR(ended);
  if (profiler_ != nullptr) MESHWORK_RETURN_IF_ERROR(profiler_->End());
  std::vector<HostCopy> copies;
  for (const HostTensor& output : host_outputs_)
    if (std::byte* const to = outputs[static_cast<size_t>(output.index)]; to != nullptr)
      copies.push_back({to, pinned_.data() + output.offset, output.bytes});
  copier_.Copy(copies);
  return difference_;
}

absl::Status CudaStep::Enqueue(const Binding& binding, std::span<const std::byte* const> feeds) {
  // Feeds lie in the arena, too.
  if (options_.poison_padding) MESHWORK_RETURN_IF_ERROR(Poison(binding.bases));
  MESHWORK_RETURN_IF_ERROR(EnqueueFeeds(binding.bases, feeds));
  if (profiler_ != nullptr)
    MESHWORK_RETURN_IF_ERROR(profiler_->Copied(/*is_input=*/true, BytesOf(host_feeds_)));
  return binding.graph.has_value() ? binding.graph->Launch(*stream_) : EnqueueLaunches(binding);
}

absl::Status CudaStep::Poison(const Bases& bases) {
  MESHWORK_RETURN_IF_ERROR(Fill(*stream_, arena_.address(), kNan, arena_.bytes()));
  for (size_t s = 0; s < bases.size(); ++s) {
    const Storage& storage = plan_.storages[s];
    const bool is_written = storage.kind == Storage::Kind::kSpare || storage.kind == Storage::Kind::kOutput;
    if (is_written && bases[s] != 0) MESHWORK_RETURN_IF_ERROR(Fill(*stream_, bases[s], kNan, storage.bytes));
  }
  return absl::OkStatus();
}

absl::Status CudaStep::EnqueueFeeds(const Bases& bases, std::span<const std::byte* const> feeds) {
  std::vector<HostCopy> copies;
  for (const HostTensor& feed : host_feeds_)
    copies.push_back({pinned_.data() + feed.offset, feeds[static_cast<size_t>(feed.index)], feed.bytes});
  return copier_.Stage(copies, [&](size_t i, int64_t first, int64_t bytes) {
    return CopyToDevice(*stream_, bases[host_feeds_[i].storage] + static_cast<CUdeviceptr>(first),
                        copies[i].to + first, bytes);
  });
}

absl::Status CudaStep::EnqueueLaunches(const Binding& binding) {
  MESHWORK_RETURN_IF_ERROR(Enqueue(root_, binding.bases, binding.tables));
  for (const HostTensor& output : host_outputs_)
    if (binding.bases[output.storage] != 0)
      MESHWORK_RETURN_IF_ERROR(
          CopyToHost(*stream_, pinned_.data() + output.offset, binding.bases[output.storage], output.bytes));
  if (profiler_ != nullptr) return profiler_->Copied(/*is_input=*/false, BytesOf(host_outputs_));
  return absl::OkStatus();
}

absl::Status CudaStep::Enqueue(const CudaLevel& level, const Bases& bases, const Tables& tables) {
  for (const CudaAction& action : level.actions) {
    if (const auto* const kernel = std::get_if<KernelLaunch>(&action)) {
      MESHWORK_RETURN_IF_ERROR(Launch(level, *kernel, bases));
    } else if (const auto* const parts = std::get_if<PartsLaunch>(&action)) {
      MESHWORK_RETURN_IF_ERROR(Launch(level, *parts, bases, tables));
    } else if (const auto* const product = std::get_if<ProductLaunch>(&action)) {
      MESHWORK_RETURN_IF_ERROR(Launch(level, *product, bases));
    } else if (const auto* const transfers = std::get_if<TransferLaunch>(&action)) {
      const bool is_wanted =
          transfers->unpacks < 0 || bases[static_cast<size_t>(transfers->addresses[0][0].storage)] != 0;
      if (is_wanted) MESHWORK_RETURN_IF_ERROR(Launch(*transfers, tables));
    } else if (const auto* const compare = std::get_if<CompareStep>(&action)) {
      MESHWORK_RETURN_IF_ERROR(Compare(*compare, bases));
    } else {
      MESHWORK_RETURN_IF_ERROR(EnqueueLoop(std::get<LoopLaunch>(action), bases, tables));
    }
    if (profiler_ != nullptr) MESHWORK_RETURN_IF_ERROR(profiler_->Ran(action));
  }
  return absl::OkStatus();
}

absl::Status CudaStep::EnqueueLoop(const LoopLaunch& loop, const Bases& bases, const Tables& tables) {
  const auto run = [&](size_t b) {
    return Enqueue(loop.bodies[b], BasesOf(loop.bodies[b], loop, bases), tables);
  };
  switch (loop.kind) {
    case NestedStep::Kind::kRepeat:
      for (int64_t t = 0; t < loop.length; ++t) MESHWORK_RETURN_IF_ERROR(run(0));
      return absl::OkStatus();
    case NestedStep::Kind::kWhile:
      while (true) {
        MESHWORK_RETURN_IF_ERROR(run(0));
        MESHWORK_ASSIGN_OR_RETURN(const bool goes_on, IsTrue(At(bases, loop.predicate)));
        if (!goes_on) return absl::OkStatus();
        MESHWORK_RETURN_IF_ERROR(run(1));
      }
    case NestedStep::Kind::kBranch: break;
  }
  MESHWORK_ASSIGN_OR_RETURN(const bool is_true, IsTrue(At(bases, loop.predicate)));
  return run(is_true ? 0 : 1);
}

absl::StatusOr<bool> CudaStep::IsTrue(CUdeviceptr predicate) {
  std::byte* const to = pinned_.data() + pinned_.bytes() - 1;
  MESHWORK_RETURN_IF_ERROR(CopyToHost(*stream_, to, predicate, 1));
  MESHWORK_RETURN_IF_ERROR(stream_->Synchronize());
  return *to != std::byte{0};
}

void CudaStep::CheckAlignment(size_t kernel, CUdeviceptr address) const {
  MESHWORK_CHECK(address % static_cast<CUdeviceptr>(alignments_[kernel]) == 0,
                 "address {:#x} for a kernel that needs multiples of {}", address, alignments_[kernel]);
}

absl::Status CudaStep::Launch(const CudaLevel& level, const KernelLaunch& launch, const Bases& bases) {
  KernelArguments arguments;
  for (const DeviceAddress& pointer : launch.pointers) {
    const CUdeviceptr address =
        pointer.storage == DeviceAddress::kScratch ? workspace_.address() : At(bases, pointer);
    CheckAlignment(launch.kernel, address);
    arguments.Add(address);
  }
  for (const long long number : launch.blocks) arguments.Add(number);
  const LaunchShape shape{.grid = {static_cast<unsigned>(launch.grid)},
                          .block = {threads_[launch.kernel]},
                          .shared_bytes = shared_bytes_[launch.kernel]};
  const absl::Status status = functions_[launch.kernel].Launch(*stream_, shape, arguments);
  if (status.ok()) return status;
  return Annotate(status, fmt::format("Run: {}: ", level.plan->graph->Describe(launch.nodes.front().node)));
}

absl::Status CudaStep::Launch(const CudaLevel& level, const ProductLaunch& launch, const Bases& bases) {
  const CudaProducts::Addresses addresses{At(bases, launch.a), At(bases, launch.b), At(bases, launch.d)};
  const absl::Status status = products_->Launch(*stream_, launch.product, addresses, workspace_.address());
  if (status.ok()) return status;
  return Annotate(status, fmt::format("Run: {}: ", level.plan->graph->Describe(launch.nodes.front().node)));
}

absl::Status CudaStep::Launch(const CudaLevel& level, const PartsLaunch& launch, const Bases& bases,
                              const Tables& tables) {
  const auto first = static_cast<CUdeviceptr>(tables.first_parts.at(&launch));
  KernelArguments arguments;
  arguments.Add(tables.parts.address() + first * sizeof(CudaPart));
  arguments.Add(static_cast<long long>(launch.parts.size()));
  arguments.Add(static_cast<long long>(launch.per_block));
  for (const DeviceAddress& operand : launch.common) arguments.Add(At(bases, operand));
  const LaunchShape shape{.grid = {static_cast<unsigned>(launch.blocks)}, .block = {threads_[launch.kernel]}};
  const absl::Status status = functions_[launch.kernel].Launch(*stream_, shape, arguments);
  if (status.ok()) return status;
  return Annotate(status, fmt::format("Run: {}: ", level.plan->graph->Describe(launch.nodes.front().node)));
}

absl::Status CudaStep::Launch(const TransferLaunch& launch, const Tables& tables) {
  const Tables::Launch& table = tables.launches.at(&launch);
  KernelArguments arguments;
  arguments.Add(tables.transfers.address() + static_cast<CUdeviceptr>(table.first) * sizeof(CudaTransfer));
  arguments.Add(static_cast<long long>(table.count));
  arguments.Add(tables.numbers.address());
  const LaunchShape shape{.grid = {static_cast<unsigned>(launch.blocks)}, .block = {threads_[launch.kernel]}};
  return functions_[launch.kernel].Launch(*stream_, shape, arguments);
}

absl::Status CudaStep::Compare(const CompareStep& compare, const Bases& bases) {
  const CopyStep& step = *compare.step;
  for (size_t i = 0; i < step.transfers.size() && difference_.ok(); ++i) {
    const Transfer& transfer = step.transfers[i];
    std::vector<std::byte> copies[2];
    for (size_t c = 0; c < 2; ++c) {
      const Buffer& buffer = plan_.buffers[static_cast<size_t>(transfer.from[c])];
      copies[c].resize(static_cast<size_t>(buffer.bytes));
      const CUdeviceptr from = At(bases, {buffer.storage, buffer.offset});
      MESHWORK_RETURN_IF_ERROR(CopyToHost(*stream_, copies[c].data(), from, buffer.bytes));
    }
    MESHWORK_RETURN_IF_ERROR(stream_->Synchronize());
    const std::optional<Difference> difference =
        FindDifference(transfer.box, 0, transfer.box.elements(), DTypeSize(transfer.dtype), copies[0].data(),
                       copies[1].data());
    if (!difference.has_value()) continue;
    const ValueInfo& info = plan_.graph->value(step.value);
    const auto [first, second] = step.replicas[i];
    difference_ =
        DifferenceError("Run: " + step.subject, info.global, *info.layout, first, second, *difference);
  }
  return absl::OkStatus();
}

ExecutorMemory CudaStep::memory() const {
  return {.shared_bytes = root_.map.arena_bytes,
          .constant_bytes = root_.map.constant_bytes,
          .num_instructions = static_cast<int>(plan_.steps.size())};
}

}  // namespace meshwork

#endif
