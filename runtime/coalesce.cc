#include "meshwork/runtime/coalesce.h"

#include <algorithm>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/ir/collective_spec.h"
#include "meshwork/ir/row.h"
#include "meshwork/kernels/blas/cpu_kernels.h"
#include "meshwork/runtime/box.h"

namespace meshwork {
namespace {

// Cuts within instances that run one by one are kept while they are this few.
constexpr size_t kMostBounds = 4096;

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

// Where instance i of a node has its operands and results, and which blocks they are.
struct OneInstance {
  std::vector<int64_t> offsets;  // bytes; operands, then results
  std::vector<Block> blocks;     // empty: those of all
};

// Runs `one` for instance after instance.
class OneByOne {
 public:
  OneByOne(Kernel one, size_t num_in, std::vector<OneInstance> instances)
      : one_(std::move(one)), num_in_(num_in), instances_(std::move(instances)) {}

  void operator()(const KernelArgs& args) const {
    absl::InlinedVector<const void*, 8> in(args.in.size());
    absl::InlinedVector<void*, 4> out(args.out.size());
    for (int64_t begin = args.begin; begin < args.end;) {
      const int64_t i = begin / one_.units, first = i * one_.units;
      const OneInstance& instance = instances_[i];
      for (size_t k = 0; k < in.size(); ++k)
        in[k] = static_cast<const std::byte*>(args.in[k]) + instance.offsets[k];
      for (size_t k = 0; k < out.size(); ++k)
        out[k] = static_cast<std::byte*>(args.out[k]) + instance.offsets[num_in_ + k];
      const std::span<const Block> blocks = instance.blocks;
      const int64_t end = std::min(args.end, first + one_.units);
      one_.run({.in = in,
                .out = out,
                .in_blocks = blocks.empty() ? args.in_blocks : blocks.first(num_in_),
                .out_blocks = blocks.empty() ? args.out_blocks : blocks.subspan(num_in_),
                .begin = begin - first,
                .end = end - first});
      begin = end;
    }
  }

 private:
  const Kernel one_;
  const size_t num_in_;
  const std::vector<OneInstance> instances_;
};

// How many of the outer instances of `items` an operand that varies over `axes` has, each for all inner ones.
int64_t OuterInstances(const Mesh& mesh, AxisSet axes, const InstanceMap& items) {
  int64_t count = 1;
  for (int axis : InstanceOrder(items.axes())) {
    if (!axes.Contains(axis)) break;
    count *= mesh.axis(axis).size;
  }
  return count;
}

Kernel OneByOneKernel(const Graph& local, const Node& node, const std::vector<ValueBuffers>& values,
                      const InstanceMap& items) {
  Kernel one = CpuKernelOf(*node.row)(SpecOf(local, node));
  std::vector<OneInstance> each(static_cast<size_t>(items.count()));
  for (int64_t i = 0; i < items.count(); ++i) {
    const int64_t device = items.Representative(i);
    const auto add = [&](ValueId id) {
      const ValueInfo& info = local.value(id);
      each[i].offsets.push_back(values[id].instances.Of(device) * info.type.bytes());
      if (node.row->reads_block) each[i].blocks.push_back(info.layout->BlockOf(info.global.shape, device));
    };
    for (ValueId id : node.operands) add(id);
    for (ValueId id : node.results) add(id);
  }
  Kernel all{.run = {}, .units = items.count() * one.units, .by_rows = one.by_rows};
  for (size_t o = 0; o < node.operands.size(); ++o) {
    const AxisSet axes = values[node.operands[o]].instances.axes();
    all.parts.push_back(axes == items.axes() ? items.count() * one.PartsOf(o)
                                             : OuterInstances(local.mesh(), axes, items));
  }
  if (!one.bounds.empty()) {
    const bool within = one.bounds.size() * each.size() <= kMostBounds;
    for (int64_t i = 0; i < items.count(); ++i)
      for (size_t b = 0; b + 1 < (within ? one.bounds.size() : 2); ++b)
        all.bounds.push_back(i * one.units + one.bounds[b]);
    all.bounds.push_back(all.units);
  }
  all.run = OneByOne(std::move(one), node.operands.size(), std::move(each));
  return all;
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

NodeKernel MakeNodeKernel(const Graph& local, int n, const std::vector<ValueBuffers>& values, bool coalesce) {
  const Node& node = local.nodes()[n];
  NodeKernel made{
      .kernel = {}, .items = values[node.results[0]].instances, .blocks = WholeBlocks(local, node)};
  // A device reads its own block, but where one holds for all.
  if (made.items.count() == 1 && !node.row->reads_block) {
    made.kernel = CpuKernelOf(*node.row)(SpecOf(local, node));
    return made;
  }
  // Where a result has more instances than the operands (sharing is off), each is computed by itself.
  const bool can_stack =
      coalesce && CanStack(local, node, made.items.axes()) && AxesOf(node, values) == made.items.axes();
  if (can_stack) {
    const StackDims dims = DimsOf(local, node, values, made.items.axes(), {}, ReduceOp::kSum);
    if (const std::optional<KernelSpec> spec = node.row->stack(SpecOf(local, node), dims)) {
      made.kernel = CpuKernelOf(*node.row)(*spec);
      return made;
    }
  }
  made.kernel = OneByOneKernel(local, node, values, made.items);
  made.one_by_one = true;
  return made;
}

std::optional<NodeKernel> MakeReducingKernel(const Graph& local, int n, int reduce,
                                             const std::vector<ValueBuffers>& values) {
  const Node &node = local.nodes()[n], &collective = local.nodes()[reduce];
  if (collective.row->collective != CollectiveKind::kAllReduce || collective.operands.size() != 1 ||
      node.results.size() != 1 || collective.operands[0] != node.results[0])
    return std::nullopt;
  const AxisSet axes = AxesOf(node, values), group(CollectiveOf(collective).axes);
  if (!CanStack(local, node, axes)) return std::nullopt;
  const AxisSet result = values[collective.results[0]].instances.axes();
  // Each instance counts once, and the sums vary over what is left.
  if (axes != values[node.results[0]].instances.axes() || axes.Minus(group) != result) return std::nullopt;
  for (int axis : group.ToList())
    if (local.mesh().axis(axis).size > 1 && !axes.Contains(axis)) return std::nullopt;
  const StackDims dims = DimsOf(local, node, values, axes, group, collective.attrs.Get<ReduceOp>("op"));
  const std::optional<KernelSpec> spec = node.row->stack(SpecOf(local, node), dims);
  if (!spec.has_value()) return std::nullopt;
  return NodeKernel{.kernel = CpuKernelOf(*node.row)(*spec),
                    .items = values[collective.results[0]].instances,
                    .blocks = WholeBlocks(local, node)};
}

}  // namespace meshwork
