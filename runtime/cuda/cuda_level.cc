#include "meshwork/runtime/cuda/cuda_level.h"

#include <algorithm>
#include <map>
#include <optional>

#include "meshwork/base/status.h"
#include "meshwork/ir/row.h"
#include "meshwork/kernels/cuda/transfers.h"
#include "meshwork/runtime/cuda/cuda_fusion.h"

namespace meshwork {
namespace {

constexpr int64_t kBaseAlignment = 256;  // of DTensors and arenas
constexpr int64_t kPackAlignment = 16;   // that kernels make use of

class LevelMaker {
 public:
  // `alignments`: per storage, what its address is a multiple of.
  LevelMaker(const StepPlan& plan, StorageMap map, CudaKernels& kernels, bool fuse,
             std::vector<int64_t> alignments)
      : plan_(plan), kernels_(kernels), fuse_(fuse), alignments_(std::move(alignments)) {
    level_.map = std::move(map);
    level_.plan = &plan;
  }

  CudaLevel Make() && {
    std::vector<CudaGroup> groups;
    if (fuse_) groups = FindCudaGroups(plan_);
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

  // Of all of them, as far as kernels make use of it.
  int64_t AlignmentOf(const std::vector<DeviceAddress>& addresses) const {
    int64_t alignment = kPackAlignment;
    for (const DeviceAddress& address : addresses) {
      alignment = std::min(alignment, alignments_[static_cast<size_t>(address.storage)]);
      while (address.offset % alignment != 0) alignment /= 2;
    }
    return alignment;
  }

  // ---- Kernels.

  void Add(const CudaGroup& group) {
    if (group.stored.empty()) return;
    KernelLaunch launch{.node = std::get<ComputeStep>(plan_.steps[group.first]).node};
    for (const auto* buffers : {&group.operands, &group.results})
      for (BufferId buffer : *buffers) launch.pointers.push_back(AddressOf(buffer));
    const int64_t alignment = AlignmentOf(launch.pointers);
    CudaKernel kernel = group.has_rows ? MakeCudaRows(group.ops, group.stored, alignment)
                                       : MakeCudaChain(group.ops, group.stored, alignment);
    launch.grid = kernel.blocks;
    launch.kernel = kernels_.Add(std::move(kernel));
    level_.actions.push_back(std::move(launch));
  }

  void Add(const ComputeStep& compute, size_t) {
    const OpRow& row = *plan_.graph->nodes()[static_cast<size_t>(compute.node)].row;
    const int64_t launches = compute.one_by_one ? compute.needed : 1;
    std::vector<std::vector<DeviceAddress>> pointers(static_cast<size_t>(launches));
    int64_t alignment = kPackAlignment;
    for (int64_t i = 0; i < launches; ++i) {
      std::vector<DeviceAddress>& of_launch = pointers[static_cast<size_t>(i)];
      for (const auto* values : {&compute.in, &compute.out})
        for (const ValueBuffers& value : *values)
          of_launch.push_back(
              AddressOf(compute.one_by_one ? value.Of(compute.items.Representative(i)) : value.first));
      alignment = std::min(alignment, AlignmentOf(of_launch));
    }
    std::optional<CudaKernel> kernel = MakeCudaKernel(row, compute.spec, alignment);
    MESHWORK_CHECK(kernel.has_value(), "{} has no CUDA kernel", row.name);
    if (kernel->blocks == 0) return;
    const std::vector<CudaKernel::BlockArgument> block_arguments = kernel->block_arguments;
    const int64_t grid = kernel->blocks;
    const size_t number = kernels_.Add(*std::move(kernel));
    for (int64_t i = 0; i < launches; ++i) {
      KernelLaunch launch{.kernel = number,
                          .pointers = std::move(pointers[static_cast<size_t>(i)]),
                          .grid = grid,
                          .node = compute.node};
      const std::vector<Block>& blocks =
          compute.blocks[compute.blocks.size() > 1 ? static_cast<size_t>(i) : 0];
      for (const CudaKernel::BlockArgument& argument : block_arguments) {
        const size_t at = static_cast<size_t>(argument.index) + (argument.is_result ? compute.in.size() : 0);
        for (const Extent& extent : blocks[at]) {
          launch.blocks.push_back(extent.start);
          launch.blocks.push_back(extent.size);
        }
      }
      (compute.once ? level_.once : level_.actions).push_back(std::move(launch));
    }
  }

  // ---- Data that moves.

  void Add(const CopyStep& copies, size_t) {
    if (copies.kind == CopyStep::Kind::kCompare) {
      level_.actions.push_back(CompareStep{&copies});
      level_.reads_host = true;
      return;
    }
    MESHWORK_CHECK(copies.calls.empty(), "a cross-device op");
    // Transfers of one step write different places, so their order does not matter.
    std::map<size_t, TransferLaunch> launches;
    for (const Transfer& transfer : copies.transfers) {
      if (transfer.box.elements() == 0) continue;
      const size_t kernel =
          kernels_.Add(transfer.from.size() > 1 ? CudaReduceKernel(transfer.dtype, transfer.op)
                                                : CudaMoveKernel(DTypeSize(transfer.dtype)));
      TransferLaunch& launch = launches[kernel];
      launch.kernel = kernel;
      launch.node = copies.node;
      launch.blocks += BlocksOf(transfer);
      std::vector<DeviceAddress> addresses = {AddressOf(transfer.to)};
      for (BufferId from : transfer.from) addresses.push_back(AddressOf(from));
      if (copies.kind == CopyStep::Kind::kUnpack)
        launch.unpacks = plan_.storages[static_cast<size_t>(addresses[0].storage)].index;
      launch.transfers.push_back(transfer);
      launch.addresses.push_back(std::move(addresses));
    }
    for (auto& [kernel, launch] : launches) level_.actions.push_back(std::move(launch));
  }

  static int64_t BlocksOf(const Transfer& transfer) {
    return (transfer.box.elements() + kElementsPerTransferBlock - 1) / kElementsPerTransferBlock;
  }

  void Add(const RemoteStep&, size_t) { MESHWORK_CHECK(false, "a step across domains"); }

  // ---- Loops and branches.

  void Add(const NestedStep& nested, size_t i) {
    LoopLaunch loop{.kind = nested.kind, .length = nested.length, .node = nested.node};
    if (nested.kind != NestedStep::Kind::kRepeat) {
      loop.predicate = AddressOf(nested.predicate);
      level_.reads_host = true;
    }
    for (BufferId argument : nested.arguments)
      loop.arguments.push_back(argument < 0 ? DeviceAddress() : AddressOf(argument));
    for (size_t b = 0; b < nested.bodies.size(); ++b) {
      std::vector<int64_t> alignments;
      StorageMap& map = level_.map.bodies[i][b];
      for (size_t s = 0; s < map.places.size(); ++s) {
        alignments.push_back(kBaseAlignment);
        if (map.places[s].kind != StorageMap::Place::Kind::kBound) continue;
        const DeviceAddress& argument =
            loop.arguments[static_cast<size_t>(nested.bodies[b].storages[s].index)];
        if (argument.storage >= 0) alignments.back() = AlignmentOf({argument});
      }
      loop.bodies.push_back(
          LevelMaker(nested.bodies[b], std::move(map), kernels_, fuse_, std::move(alignments)).Make());
      level_.reads_host |= loop.bodies.back().reads_host;
    }
    level_.actions.push_back(std::move(loop));
  }

  const StepPlan& plan_;
  CudaKernels& kernels_;
  const bool fuse_;
  const std::vector<int64_t> alignments_;
  CudaLevel level_;
};

}  // namespace

size_t CudaKernels::Add(CudaKernel kernel) {
  const auto found = std::find_if(kernels_.begin(), kernels_.end(),
                                  [&](const CudaKernel& other) { return other.name == kernel.name; });
  if (found != kernels_.end()) return static_cast<size_t>(found - kernels_.begin());
  kernels_.push_back(std::move(kernel));
  return kernels_.size() - 1;
}

CudaLevel MakeLevel(const StepPlan& plan, CudaKernels& kernels, bool fuse) {
  const std::vector<int64_t> alignments(plan.storages.size(), kBaseAlignment);
  return LevelMaker(plan, MapStorages(plan, fuse), kernels, fuse, alignments).Make();
}

}  // namespace meshwork
