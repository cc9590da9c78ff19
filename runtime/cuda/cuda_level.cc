#include "meshwork/runtime/cuda/cuda_level.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <optional>

#include "meshwork/base/status.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/kernels/cuda/transfers.h"
#include "meshwork/runtime/cuda/cuda_fusion.h"

namespace meshwork {
namespace {

constexpr int64_t kAlignmentOfPlaces = 256;   // in the arena, and of constants
constexpr int64_t kAlignmentOfDTensors = 64;  // what a Memory promises
constexpr int64_t kPackAlignment = 16;        // that kernels make use of

class LevelMaker {
 public:
  // `arguments`: for a body, the alignment of its arguments, in bytes.
  LevelMaker(const StepPlan& plan, StorageMap map, CudaKernels& kernels, const LevelOptions& options,
             std::vector<int64_t> arguments = {})
      : plan_(plan), kernels_(kernels), options_(options), arguments_(std::move(arguments)) {
    level_.map = std::move(map);
    level_.plan = &plan;
  }

  CudaLevel Make() && {
    std::vector<CudaGroup> groups;
    if (options_.fuse) groups = FindCudaGroups(plan_);
    auto group = groups.begin();
    for (size_t i = 0; i < plan_.steps.size(); ++i) {
      if (group == groups.end() || group->first != i) {
        std::visit([&](const auto& step) { Add(step, i); }, plan_.steps[i]);
        continue;
      }
      Add(*group);
      i = group->end - 1;
      ++group;
    }
    return std::move(level_);
  }

 private:
  DeviceAddress AddressOf(BufferId buffer) const {
    const Buffer& at = plan_.buffers[static_cast<size_t>(buffer)];
    return {at.storage, at.offset};
  }

  // The address of an operand or result of launch `i` of the step.
  DeviceAddress AddressOf(const ComputeStep& compute, const ValueBuffers& value, int64_t i) const {
    return AddressOf(compute.one_by_one ? value.Of(compute.items.Representative(i)) : value.first);
  }
  static int64_t LaunchesOf(const ComputeStep& compute) { return compute.one_by_one ? compute.needed : 1; }

  // The alignment of the address, in bytes.
  int64_t AlignmentOf(const DeviceAddress& address) const {
    const auto storage = static_cast<size_t>(address.storage);
    const auto argument = static_cast<size_t>(plan_.storages[storage].index);
    int64_t alignment = kAlignmentOfPlaces;
    if (level_.map.places[storage].kind == StorageMap::Place::Kind::kBound)
      alignment = argument < arguments_.size() ? arguments_[argument] : kAlignmentOfDTensors;
    return std::gcd(alignment, address.offset);
  }
  // The alignment that all addresses have, as far as kernels make use of it.
  int64_t PackAlignmentOf(const std::vector<DeviceAddress>& addresses) const {
    int64_t alignment = kPackAlignment;
    for (const DeviceAddress& address : addresses) alignment = std::gcd(alignment, AlignmentOf(address));
    return alignment;
  }

  // The node that each launch of the step computes.
  static ProfiledNode NodeOf(const ComputeStep& compute) {
    return {.node = compute.node,
            .reduces = compute.reduces,
            .instances = static_cast<double>(compute.instances) / static_cast<double>(LaunchesOf(compute))};
  }
  std::vector<ProfiledNode> NodesOf(const CudaGroup& group) const {
    std::vector<ProfiledNode> nodes;
    for (size_t i = group.first; i < group.end; ++i)
      nodes.push_back(NodeOf(std::get<ComputeStep>(plan_.steps[i])));
    return nodes;
  }

  // ---- Products.

  // Adds launches of a library's product; false if no library computes the step.
  bool AddProduct(const OpRow& row, const ComputeStep& compute) {
    if (options_.take_product == nullptr) return false;
    const std::optional<CudaProduct> product = MakeCudaProduct(row, compute.spec);
    if (!product.has_value()) return false;
    std::vector<ProductLaunch> launches;
    ProductAlignment alignment;
    for (int64_t i = 0; i < LaunchesOf(compute); ++i) {
      const auto address = [&](const ValueBuffers& value, int64_t& aligned) {
        const DeviceAddress at = AddressOf(compute, value, i);
        aligned = std::gcd(aligned, AlignmentOf(at));
        return at;
      };
      launches.push_back({.a = address(compute.in[0], alignment.a),
                          .b = address(compute.in[1], alignment.b),
                          .d = address(compute.out[0], alignment.d),
                          .nodes = {NodeOf(compute)}});
    }
    const std::optional<size_t> number = options_.take_product(plan_, compute.node, *product, alignment);
    if (!number.has_value()) return false;
    for (ProductLaunch& launch : launches) {
      launch.product = *number;
      (compute.once ? level_.once : level_.actions).push_back(std::move(launch));
    }
    return true;
  }

  // ---- Convolutions.

  // Adds launches of a library's convolution; false if no library computes the step. The library's filters have the
  // channels of the result first, so filters are transposed to scratch memory before, or from it after the
  // convolution.
  bool AddConvolution(const OpRow& row, const ComputeStep& compute) {
    if (options_.take_convolution == nullptr) return false;
    const std::optional<CudaConvolution> convolution = MakeCudaConvolution(row, compute.spec);
    if (!convolution.has_value()) return false;
    using Kind = CudaConvolution::Kind;
    const int64_t launches = LaunchesOf(compute);
    // x, w and y of each launch; one of them is the result.
    std::vector<std::array<DeviceAddress, 3>> all(static_cast<size_t>(launches));
    int64_t alignment = kPackAlignment;
    for (int64_t i = 0; i < launches; ++i) {
      const DeviceAddress first = AddressOf(compute, compute.in[0], i),
                          second = AddressOf(compute, compute.in[1], i),
                          result = AddressOf(compute, compute.out[0], i);
      auto& [x, w, y] = all[static_cast<size_t>(i)];
      if (convolution->kind == Kind::kForward) x = first, w = second, y = result;
      else if (convolution->kind == Kind::kInputGrad) x = result, w = second, y = first;
      else x = first, w = result, y = second;
      alignment = std::min(alignment, PackAlignmentOf({x, w, y}));
    }
    const std::optional<TakenConvolution> taken =
        options_.take_convolution(plan_, compute.node, *convolution, alignment);
    if (!taken.has_value()) return false;
    std::vector<CudaAction>& actions = compute.once ? level_.once : level_.actions;
    const int64_t filter_bytes = convolution->filter_elements() * DTypeSize(convolution->dtype);
    const int64_t workspace =
        (filter_bytes + kAlignmentOfPlaces - 1) / kAlignmentOfPlaces * kAlignmentOfPlaces;
    level_.scratch_bytes = std::max(level_.scratch_bytes, workspace + taken->workspace_bytes);
    for (const auto& [x, w, y] : all) {
      const bool makes_filter = convolution->kind == Kind::kFilterGrad;
      const DeviceAddress filter{.storage = DeviceAddress::kScratch};
      if (!makes_filter) AddFilterTranspose(*convolution, w, filter, compute, alignment, actions);
      actions.push_back(ConvolutionLaunch{.convolution = taken->number,
                                          .x = x,
                                          .w = filter,
                                          .y = y,
                                          .workspace = {DeviceAddress::kScratch, workspace},
                                          .nodes = {NodeOf(compute)}});
      if (makes_filter) AddFilterTranspose(*convolution, filter, w, compute, alignment, actions);
    }
    return true;
  }

  void AddFilterTranspose(const CudaConvolution& convolution, const DeviceAddress& from,
                          const DeviceAddress& to, const ComputeStep& compute, int64_t alignment,
                          std::vector<CudaAction>& actions) {
    CudaKernel kernel = MakeCudaKernel(GetOp("transpose"), FilterTranspose(convolution), alignment).value();
    KernelLaunch launch{.pointers = {from, to}, .grid = kernel.blocks, .nodes = {NodeOf(compute)}};
    launch.nodes[0].instances = 0;  // the work is that of the convolution
    launch.kernel = kernels_.Add(std::move(kernel));
    actions.push_back(std::move(launch));
  }

  // ---- Kernels.

  void Add(const CudaGroup& group) {
    if (group.parts.has_value()) return AddParts(group);
    if (group.stored.empty()) return;
    KernelLaunch launch{.nodes = NodesOf(group)};
    for (const auto* buffers : {&group.operands, &group.results})
      for (BufferId buffer : *buffers) launch.pointers.push_back(AddressOf(buffer));
    const int64_t alignment = PackAlignmentOf(launch.pointers);
    CudaKernel kernel = group.has_rows
                            ? MakeCudaRows(group.ops, group.stored, alignment, options_.shared_bytes)
                        : group.has_columns ? MakeCudaColumns(group.ops, group.stored, alignment)
                                            : MakeCudaChain(group.ops, group.stored, alignment);
    launch.grid = kernel.blocks;
    const std::shared_ptr<const CudaKernel> second = kernel.second;
    level_.scratch_bytes = std::max(level_.scratch_bytes, kernel.scratch_bytes);
    launch.kernel = kernels_.Add(std::move(kernel));
    Add(std::move(launch), second.get(), /*results=*/1, level_.actions);
  }

  // Adds the launch, and one of the second kernel, if there is one, which makes the last `results`.
  void Add(KernelLaunch launch, const CudaKernel* second, int64_t results, std::vector<CudaAction>& actions) {
    if (second == nullptr) {
      actions.push_back(std::move(launch));
      return;
    }
    const auto of_second = launch.pointers.end() - results;
    KernelLaunch rest{.kernel = kernels_.Add(*second),
                      .pointers = {{.storage = DeviceAddress::kScratch}},
                      .grid = second->blocks,
                      .nodes = launch.nodes};
    rest.pointers.insert(rest.pointers.end(), of_second, launch.pointers.end());
    for (ProfiledNode& node : rest.nodes) node.instances = 0;
    launch.pointers.erase(of_second, launch.pointers.end());
    launch.pointers.push_back({.storage = DeviceAddress::kScratch});
    actions.push_back(std::move(launch));
    actions.push_back(std::move(rest));
  }

  void AddParts(const CudaGroup& group) {
    const CudaParts& of = *group.parts;
    PartsLaunch launch{.nodes = NodesOf(group)};
    for (const BufferId buffer : of.common) launch.common.push_back(AddressOf(buffer));
    int64_t alignment = kPackAlignment, elements = 0;
    for (const CudaParts::Part& part : of.parts) {
      PartsLaunch::Part& made = launch.parts.emplace_back();
      made.elements = part.elements;
      made.table = part.table;
      for (const auto* buffers : {&part.operands, &part.results})
        for (const BufferId buffer : *buffers) made.pointers.push_back(AddressOf(buffer));
      alignment = std::min(alignment, PackAlignmentOf(made.pointers));
      elements += part.elements;
    }
    if (of.scatter.has_value()) {
      const Shape& table = of.scatter->results[0].local.shape;
      const int64_t inner = NumElements(table) / std::max<int64_t>(table[0], 1);
      launch.per_block = ElementsPerRowUpdatesBlock(elements / inner, inner);
      launch.kernel = kernels_.Add(MakeCudaRowUpdates(*of.row, of.spec, *of.scatter));
    } else {
      launch.per_block = ElementsPerPartBlock(elements);
      launch.kernel = kernels_.Add(MakeCudaParts(*of.row, of.spec, alignment));
    }
    for (const PartsLaunch::Part& part : launch.parts) launch.blocks += launch.BlocksOf(part);
    level_.actions.push_back(std::move(launch));
  }

  void Add(const ComputeStep& compute, size_t) {
    const OpRow& row = *plan_.graph->nodes()[static_cast<size_t>(compute.node)].row;
    if (AddProduct(row, compute) || AddConvolution(row, compute)) return;
    const int64_t launches = LaunchesOf(compute);
    std::vector<std::vector<DeviceAddress>> pointers(static_cast<size_t>(launches));
    int64_t alignment = kPackAlignment;
    for (int64_t i = 0; i < launches; ++i) {
      std::vector<DeviceAddress>& of_launch = pointers[static_cast<size_t>(i)];
      for (const auto* values : {&compute.in, &compute.out})
        for (const ValueBuffers& value : *values) of_launch.push_back(AddressOf(compute, value, i));
      alignment = std::min(alignment, PackAlignmentOf(of_launch));
    }
    std::optional<CudaKernel> kernel = MakeCudaKernel(row, compute.spec, alignment);
    MESHWORK_CHECK(kernel.has_value(), "{} has no CUDA kernel", row.name);
    if (kernel->blocks == 0) return;
    const std::vector<CudaKernel::BlockArgument> block_arguments = kernel->block_arguments;
    const int64_t grid = kernel->blocks;
    const std::shared_ptr<const CudaKernel> second = kernel->second;
    level_.scratch_bytes = std::max(level_.scratch_bytes, kernel->scratch_bytes);
    const size_t number = kernels_.Add(*std::move(kernel));
    for (int64_t i = 0; i < launches; ++i) {
      KernelLaunch launch{.kernel = number,
                          .pointers = std::move(pointers[static_cast<size_t>(i)]),
                          .grid = grid,
                          .nodes = {NodeOf(compute)}};
      const std::vector<Block>& blocks =
          compute.blocks[compute.blocks.size() > 1 ? static_cast<size_t>(i) : 0];
      for (const CudaKernel::BlockArgument& argument : block_arguments) {
        const size_t at = static_cast<size_t>(argument.index) + (argument.is_result ? compute.in.size() : 0);
        for (const Extent& extent : blocks[at]) {
          launch.blocks.push_back(extent.start);
          launch.blocks.push_back(extent.size);
        }
      }
      Add(std::move(launch), second.get(), std::ssize(compute.out),
          compute.once ? level_.once : level_.actions);
    }
  }

  // ---- Data that moves.

  void Add(const CopyStep& copies, size_t) {
    if (copies.kind == CopyStep::Kind::kCompare) {
      level_.actions.push_back(CompareStep{&copies});
      level_.reads_host = true;
      return;
    }
    // Transfers of one step write different places, so their order does not matter.
    std::map<size_t, TransferLaunch> launches;
    for (const Transfer& transfer : copies.transfers) {
      if (transfer.box.elements() == 0) continue;
      const size_t kernel =
          kernels_.Add(transfer.from.size() > 1 ? CudaReduceKernel(transfer.dtype, transfer.op)
                                                : CudaMoveKernel(DTypeSize(transfer.dtype)));
      TransferLaunch& launch = launches[kernel];
      launch.kernel = kernel;
      launch.kind = copies.kind;
      launch.node = copies.node;
      launch.subject = copies.subject;
      launch.blocks += TransferBlocks(transfer.box.elements());
      std::vector<DeviceAddress> addresses = {AddressOf(transfer.to)};
      for (BufferId from : transfer.from) addresses.push_back(AddressOf(from));
      if (copies.kind == CopyStep::Kind::kUnpack)
        launch.unpacks = plan_.storages[static_cast<size_t>(addresses[0].storage)].index;
      launch.transfers.push_back(transfer);
      launch.addresses.push_back(std::move(addresses));
    }
    for (auto& [kernel, launch] : launches) level_.actions.push_back(std::move(launch));
  }

  // ---- Other domains. The fence at the start of a step is no launch: see CudaStep.

  void Add(const RemoteStep& remote, size_t) {
    if (remote.is_fence()) return;
    RemoteLaunch launch{.step = &remote};
    for (const RemoteStep::Part& part : remote.sends) launch.sends.push_back(AddressOf(part.buffer));
    for (const RemoteStep::Part& part : remote.receives) launch.receives.push_back(AddressOf(part.buffer));
    level_.actions.push_back(std::move(launch));
    level_.reads_host |= options_.remotes_read_host;
  }

  // ---- Loops and branches.

  void Add(const NestedStep& nested, size_t i) {
    LoopLaunch loop{.kind = nested.kind, .length = nested.length, .node = nested.node};
    if (nested.kind != NestedStep::Kind::kRepeat) {
      loop.predicate = AddressOf(nested.predicate);
      level_.reads_host = true;
    }
    for (BufferId argument : nested.arguments)
      loop.arguments.push_back(argument < 0 ? DeviceAddress() : AddressOf(argument));
    std::vector<int64_t> aligned;
    for (const DeviceAddress& argument : loop.arguments)
      aligned.push_back(argument.storage < 0 ? kAlignmentOfPlaces : AlignmentOf(argument));
    for (size_t b = 0; b < nested.bodies.size(); ++b) {
      loop.bodies.push_back(
          LevelMaker(nested.bodies[b], std::move(level_.map.bodies[i][b]), kernels_, options_, aligned)
              .Make());
      level_.reads_host |= loop.bodies.back().reads_host;
      level_.scratch_bytes = std::max(level_.scratch_bytes, loop.bodies.back().scratch_bytes);
    }
    level_.actions.push_back(std::move(loop));
  }

  const StepPlan& plan_;
  CudaKernels& kernels_;
  const LevelOptions& options_;
  const std::vector<int64_t> arguments_;
  CudaLevel level_;
};

}  // namespace

bool ReadsHost(const CudaAction& action, bool remotes_read_host) {
  if (const auto* const loop = std::get_if<LoopLaunch>(&action))
    return loop->kind != NestedStep::Kind::kRepeat ||
           std::any_of(loop->bodies.begin(), loop->bodies.end(),
                       [](const CudaLevel& body) { return body.reads_host; });
  return std::holds_alternative<CompareStep>(action) ||
         (remotes_read_host && std::holds_alternative<RemoteLaunch>(action));
}

size_t CudaKernels::Add(CudaKernel kernel) {
  const auto found = std::find_if(kernels_.begin(), kernels_.end(),
                                  [&](const CudaKernel& other) { return other.name == kernel.name; });
  if (found != kernels_.end()) return static_cast<size_t>(found - kernels_.begin());
  kernels_.push_back(std::move(kernel));
  return kernels_.size() - 1;
}

CudaLevel MakeLevel(const StepPlan& plan, CudaKernels& kernels, const LevelOptions& options) {
  return LevelMaker(plan, MapStorages(plan, options.fuse), kernels, options).Make();
}

}  // namespace meshwork
