#include "meshwork/runtime/coalesce.h"

#include <algorithm>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/ir/collective_spec.h"
#include "meshwork/ir/row.h"
#include "meshwork/runtime/box.h"

namespace meshwork {
namespace {

KernelSpec SpecOf(const Graph& local, const Node& node) {
  KernelSpec spec{.operands = {}, .results = {}, .attrs = node.attrs};
  for (ValueId id : node.operands) spec.operands.push_back({local.value(id).type, local.value(id).global});
  for (ValueId id : node.results) spec.results.push_back({local.value(id).type, local.value(id).global});
  return spec;
}

// The dims along which the instances over `axes` lie. `reduced`: those over which `op` is wanted.
StackDims DimsOf(const Graph& local, const Node& node, const std::vector<ValueBuffers>& values, AxisSet axes,
                 AxisSet reduced, ReduceOp op) {
  StackDims dims;
  for (int axis : InstanceOrder(axes)) {
    StackDim dim{.size = local.mesh().axis(axis).size};
    for (ValueId operand : node.operands)
      dim.varies.push_back(values[operand].instances.axes().Contains(axis));
    if (reduced.Contains(axis)) dim.reduced = op;
    // Dims that all walk alike are one.
    if (!dims.empty() && dims.back().varies == dim.varies && dims.back().reduced == dim.reduced)
      dims.back().size *= dim.size;
    else dims.push_back(std::move(dim));
  }
  return dims;
}

std::vector<Block> WholeBlocks(const Graph& local, const Node& node) {
  std::vector<Block> blocks;
  for (ValueId id : node.operands) blocks.push_back(WholeBlock(local.value(id).type.shape));
  for (ValueId id : node.results) blocks.push_back(WholeBlock(local.value(id).type.shape));
  return blocks;
}

// Those that `device` has.
std::vector<Block> BlocksOf(const Graph& local, const Node& node, int64_t device) {
  std::vector<Block> blocks;
  const auto add = [&](ValueId id) {
    const ValueInfo& info = local.value(id);
    blocks.push_back(info.layout->BlockOf(info.global.shape, device));
  };
  for (ValueId id : node.operands) add(id);
  for (ValueId id : node.results) add(id);
  return blocks;
}

AxisSet AxesOf(const Node& node, const std::vector<ValueBuffers>& values) {
  AxisSet axes;
  for (ValueId id : node.operands) axes = axes.Union(values[id].instances.axes());
  return axes;
}

// Kernels take so many dims.
bool CanStack(const Graph& local, const Node& node, AxisSet axes) {
  int rank = 0;
  for (ValueId id : node.operands) rank = std::max(rank, local.value(id).type.rank());
  for (ValueId id : node.results) rank = std::max(rank, local.value(id).type.rank());
  return node.row->stack != nullptr && !node.row->reads_block &&
         rank + static_cast<int>(axes.ToList().size()) <= kMaxRank;
}

}  // namespace

ComputeStep MakeComputeStep(const Graph& local, int n, const std::vector<ValueBuffers>& values,
                            bool coalesce) {
  const Node& node = local.nodes()[n];
  const InstanceMap& items = values[node.results[0]].instances;
  ComputeStep made{.node = n, .spec = SpecOf(local, node), .items = items, .instances = items.count()};
  // A device reads its own block, but where one holds for all.
  if (items.count() == 1 && !node.row->reads_block) {
    made.blocks = {WholeBlocks(local, node)};
    return made;
  }
  // Where a result has more instances than the operands (sharing is off), each is computed by itself.
  const bool can_stack =
      coalesce && CanStack(local, node, items.axes()) && AxesOf(node, values) == items.axes();
  if (can_stack) {
    const StackDims dims = DimsOf(local, node, values, items.axes(), {}, ReduceOp::kSum);
    if (std::optional<KernelSpec> spec = node.row->stack(made.spec, dims)) {
      made.spec = *std::move(spec);
      made.blocks = {WholeBlocks(local, node)};
      return made;
    }
  }
  made.one_by_one = true;
  if (!node.row->reads_block) made.blocks = {WholeBlocks(local, node)};
  else
    for (int64_t i = 0; i < items.count(); ++i)
      made.blocks.push_back(BlocksOf(local, node, items.Representative(i)));
  return made;
}

std::optional<ComputeStep> MakeReducingStep(const Graph& local, int n, int reduce,
                                            const std::vector<ValueBuffers>& values) {
  const Node &node = local.nodes()[n], &collective = local.nodes()[reduce];
  if (collective.row->collective != CollectiveKind::kAllReduce || collective.operands.size() != 1 ||
      node.results.size() != 1 || collective.operands[0] != node.results[0])
    return std::nullopt;
  const AxisSet axes = AxesOf(node, values), group(CollectiveOf(collective).axes);
  if (!CanStack(local, node, axes)) return std::nullopt;
  const InstanceMap& items = values[collective.results[0]].instances;
  const InstanceMap& instances = values[node.results[0]].instances;
  // Each instance counts once, and the sums vary over what is left.
  if (axes != instances.axes() || axes.Minus(group) != items.axes()) return std::nullopt;
  for (int axis : group.ToList())
    if (local.mesh().axis(axis).size > 1 && !axes.Contains(axis)) return std::nullopt;
  const StackDims dims = DimsOf(local, node, values, axes, group, collective.attrs.Get<ReduceOp>("op"));
  std::optional<KernelSpec> spec = node.row->stack(SpecOf(local, node), dims);
  if (!spec.has_value()) return std::nullopt;
  return ComputeStep{.node = n,
                     .spec = *std::move(spec),
                     .items = items,
                     .instances = instances.count(),
                     .reduces = reduce,
                     .blocks = {WholeBlocks(local, node)}};
}

}  // namespace meshwork
