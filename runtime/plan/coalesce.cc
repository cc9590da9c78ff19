#include "meshwork/runtime/plan/coalesce.h"

#include <algorithm>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/ir/collective_spec.h"
#include "meshwork/ir/row.h"
#include "meshwork/runtime/tensor/box.h"

namespace meshwork {
namespace {

KernelSpec SpecOf(const Graph& local, const Node& node) {
  KernelSpec spec{.operands = {}, .results = {}, .attrs = node.attrs};
  for (ValueId id : node.operands) spec.operands.push_back({local.value(id).type, local.value(id).global});
  for (ValueId id : node.results) spec.results.push_back({local.value(id).type, local.value(id).global});
  return spec;
}

// The dims along which the instances over `axes` lie. `reduced`: the axes that are reduced by `op`.
StackDims DimsOf(const Graph& local, const Node& node, const std::vector<ValueBuffers>& values, AxisSet axes,
                 AxisSet reduced, ReduceOp op) {
  StackDims dims;
  for (int axis : InstanceOrder(axes)) {
    StackDim dim{.size = local.mesh().axis(axis).size};
    for (ValueId operand : node.operands)
      dim.varies.push_back(values[operand].instances.axes().Contains(axis));
    if (reduced.Contains(axis)) dim.reduced = op;
    // Neighbouring dims with the same operands and the same reduction are joined.
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

// The blocks that `device` has.
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

// Whether the row has a `stack`, and its kernel can take the dims that are added for `axes`.
bool CanStack(const Graph& local, const Node& node, AxisSet axes) {
  int rank = 0;
  for (ValueId id : node.operands) rank = std::max(rank, local.value(id).type.rank());
  for (ValueId id : node.results) rank = std::max(rank, local.value(id).type.rank());
  return node.row->stack != nullptr && rank + static_cast<int>(axes.ToList().size()) <= kMaxRank;
}

// ---- Rows that read their block. Their `stack` adds leading dims to operands and results whose block is not read.

AxisSet Common(AxisSet a, AxisSet b) { return a.Minus(a.Minus(b)); }

// The block that the instances of a value are together, if each is a block of rows that follows the one before.
std::optional<Block> JoinedBlock(const ValueInfo& info, const InstanceMap& instances) {
  const Shape &whole = info.global.shape, &own = info.type.shape;
  if (own.empty() || !std::equal(own.begin() + 1, own.end(), whole.begin() + 1)) return std::nullopt;
  Block joined = info.layout->BlockOf(whole, instances.Representative(0));
  for (int64_t i = 1; i < instances.count(); ++i) {
    const Extent rows = info.layout->BlockOf(whole, instances.Representative(i))[0];
    if (rows.size == 0) continue;  // what is left is padding
    if (rows.start != joined[0].start + i * own[0]) return std::nullopt;
    joined[0].size = i * own[0] + rows.size;
  }
  return joined;
}

// A spec for all instances in one, and its blocks.
struct WholeSpec {
  KernelSpec spec;
  std::vector<Block> blocks;
};

// Whether the spec is valid for the row: its operands and attributes give its result.
bool IsApplication(const OpRow& row, const KernelSpec& spec) {
  std::vector<Type> operands;
  for (const TensorSpec& operand : spec.operands) operands.push_back(operand.local);
  const Type& result = spec.results[0].local;
  const auto inferred = row.infer({operands, {}, WithResultShape(row, spec.attrs, result.shape)});
  return inferred.ok() && inferred->size() == 1 && (*inferred)[0] == result;
}

// Makes one spec for all instances of a lookup, a row that reads its block. Two kinds of tensors are joined: an
// operand, if it alone is cut over axes of the sums, such as a table that is cut by rows; and the result, if it alone
// is cut over other axes, such as the gradient of such a table. The joined tensor takes the place of its instances, and
// the op on it gives the sums. `items`: the instances of the sums.
class WholeSpecMaker {
 public:
  WholeSpecMaker(const Graph& local, const Node& node, const std::vector<ValueBuffers>& values)
      : local_(local), node_(node), values_(values) {}

  std::optional<WholeSpec> Make(const InstanceMap& items, AxisSet group, ReduceOp op) const {
    const AxisSet axes = values_[node_.results[0]].instances.axes();
    WholeSpec made{SpecOf(local_, node_), BlocksOf(local_, node_, items.Representative(0))};
    AxisSet joined;
    for (size_t o = 0; o < node_.operands.size(); ++o) {
      const AxisSet alone = Common(VariesAlone(o, axes), group);
      if (alone.empty()) continue;
      if (!Join(local_.value(node_.operands[o]), values_[node_.operands[o]].instances, alone,
                made.spec.operands[o], made.blocks[o]))
        return std::nullopt;
      joined = joined.Union(alone);
    }
    // An instance that does not have the row of an index gives 0, or false. Only a sum, or kOr, is the same without it.
    const bool is_bool = made.spec.results[0].local.dtype == BOOL;
    if (!joined.empty() && op != (is_bool ? ReduceOp::kOr : ReduceOp::kSum)) return std::nullopt;
    const AxisSet of_result = axes.Minus(AxesOf(node_, values_));
    if (!of_result.empty() && !Join(local_.value(node_.results[0]), items, of_result, made.spec.results[0],
                                    made.blocks[node_.operands.size()]))
      return std::nullopt;
    // Indices may be cut although all devices have the same bits, as with constants. Then their instances were not
    // joined.
    if (!IsApplication(*node_.row, made.spec)) return std::nullopt;
    const AxisSet left = axes.Minus(joined).Minus(of_result);
    if (left.empty()) return made;
    const StackDims dims = DimsOf(local_, node_, values_, left, group, op);
    std::optional<KernelSpec> stacked = node_.row->stack(made.spec, dims);
    if (!stacked.has_value()) return std::nullopt;
    made.spec = *std::move(stacked);
    for (size_t o = 0; o < node_.operands.size(); ++o)
      LeadBlock(made.spec.operands[o].local.shape, made.blocks[o]);
    LeadBlock(made.spec.results[0].local.shape, made.blocks[node_.operands.size()]);
    return made;
  }

 private:
  // The axes over which operand `o` varies, and no other.
  AxisSet VariesAlone(size_t o, AxisSet axes) const {
    AxisSet alone = Common(values_[node_.operands[o]].instances.axes(), axes);
    for (size_t other = 0; other < node_.operands.size(); ++other)
      if (other != o) alone = alone.Minus(values_[node_.operands[other]].instances.axes());
    return alone;
  }

  static bool Join(const ValueInfo& info, const InstanceMap& instances, AxisSet axes, TensorSpec& spec,
                   Block& block) {
    if (instances.axes() != axes) return false;
    const std::optional<Block> joined = JoinedBlock(info, instances);
    if (!joined.has_value()) return false;
    spec.local.shape[0] *= instances.count();
    block = *joined;
    return true;
  }

  // The block of a tensor with leading dims is not read, so it is the whole tensor.
  static void LeadBlock(const Shape& shape, Block& block) {
    if (shape.size() != block.size()) block = WholeBlock(shape);
  }

  const Graph& local_;
  const Node& node_;
  const std::vector<ValueBuffers>& values_;
};

// Whether the instances of a reduce_scatter, one behind the other, are the sum of all instances of the lookup `node`.
bool IsSharedOut(const Graph& local, const Node& node, const Node& scatter, AxisSet axes, AxisSet group,
                 const InstanceMap& items) {
  const ValueInfo &sum = local.value(node.results[0]), &shared_out = local.value(scatter.results[0]);
  if (!node.row->reads_block || axes != group || items.axes() != axes || axes != items.varying())
    return false;
  const std::optional<Block> joined = JoinedBlock(shared_out, items);
  // There must be no padding behind the last rows: the sum has as many elements as its instances in memory.
  return joined.has_value() && (*joined)[0].start == 0 && sum.type.shape[0] == (*joined)[0].size &&
         sum.type.shape[0] == items.count() * shared_out.type.shape[0];
}

}  // namespace

ComputeStep MakeComputeStep(const Graph& local, int n, const std::vector<ValueBuffers>& values,
                            bool coalesce) {
  const Node& node = local.nodes()[n];
  const InstanceMap& items = values[node.results[0]].instances;
  ComputeStep made{.node = n, .spec = SpecOf(local, node), .items = items, .instances = items.count()};
  // A single item needs no stacking. Its blocks are whole unless the row reads its block.
  if (items.count() == 1 && !node.row->reads_block) {
    made.blocks = {WholeBlocks(local, node)};
    return made;
  }
  const bool can_stack = coalesce && CanStack(local, node, items.axes());
  if (can_stack && node.row->reads_block) {
    if (std::optional<WholeSpec> whole =
            WholeSpecMaker(local, node, values).Make(items, {}, ReduceOp::kSum)) {
      made.spec = std::move(whole->spec);
      made.blocks = {std::move(whole->blocks)};
      return made;
    }
  }
  // If a result has more instances than the operands (sharing is off), each instance is computed by itself.
  if (can_stack && !node.row->reads_block && AxesOf(node, values) == items.axes()) {
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
  const bool scatters = collective.row->collective == CollectiveKind::kReduceScatter;
  if ((collective.row->collective != CollectiveKind::kAllReduce && !scatters) ||
      collective.operands.size() != 1 || node.results.size() != 1 ||
      collective.operands[0] != node.results[0])
    return std::nullopt;
  const InstanceMap& items = values[collective.results[0]].instances;
  const InstanceMap& instances = values[node.results[0]].instances;
  const AxisSet group(CollectiveOf(collective).axes);
  const AxisSet axes = node.row->reads_block ? instances.axes() : AxesOf(node, values);
  if (!CanStack(local, node, axes)) return std::nullopt;
  // Each instance must count once. The sums must vary over the remaining axes; those of a reduce_scatter must be the
  // rows of one sum that the devices get.
  if (axes != instances.axes()) return std::nullopt;
  if (scatters ? !IsSharedOut(local, node, collective, axes, group, items)
               : axes.Minus(group) != items.axes())
    return std::nullopt;
  for (int axis : group.ToList())
    if (local.mesh().axis(axis).size > 1 && !axes.Contains(axis)) return std::nullopt;
  const auto op = collective.attrs.Get<ReduceOp>("op");
  ComputeStep made{.node = n,
                   .spec = {},
                   .items = items,
                   .instances = instances.count(),
                   .reduces = reduce,
                   .blocks = {WholeBlocks(local, node)}};
  if (node.row->reads_block) {
    // A reduce_scatter has one sum; the instances of its result are blocks of it.
    const InstanceMap& of_sum = scatters ? InstanceMap(local.mesh(), {}) : items;
    std::optional<WholeSpec> whole = WholeSpecMaker(local, node, values).Make(of_sum, group, op);
    if (!whole.has_value()) return std::nullopt;
    made.spec = std::move(whole->spec);
    made.blocks = {std::move(whole->blocks)};
    return made;
  }
  std::optional<KernelSpec> spec =
      node.row->stack(SpecOf(local, node), DimsOf(local, node, values, axes, group, op));
  if (!spec.has_value()) return std::nullopt;
  made.spec = *std::move(spec);
  return made;
}

}  // namespace meshwork
