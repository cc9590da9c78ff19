#include "meshwork/runtime/plan/collective.h"

#include <string>

#include "meshwork/base/status.h"
#include "meshwork/ir/collective_spec.h"
#include "meshwork/ir/program_cost.h"
#include "meshwork/ir/row.h"
#include "meshwork/runtime/plan/plan_exchange.h"
#include "meshwork/runtime/tensor/box.h"

namespace meshwork {
namespace {

// One result of one collective node that is filled, with what planning it needs.
struct Filled {
  const Graph& local;
  int node_index;
  const Node& node;
  const ValueInfo& from;
  const ValueInfo& to;
  const ValueBuffers& from_buffers;
  const ValueBuffers& to_buffers;

  const Mesh& mesh() const { return local.mesh(); }
  const Shape& global() const { return to.global.shape; }
  AxisList axes() const { return CollectiveOf(node).axes; }
  ReduceOp op() const { return CollectiveOf(node).op; }
  std::string where() const { return local.Describe(node_index); }
  Transfer NewTransfer(int64_t device) const {
    Transfer transfer;
    transfer.dtype = to.type.dtype;
    transfer.to = to_buffers.Of(device);
    return transfer;
  }
};

absl::Status NotCovered(const Filled& x, int64_t device, const Block& block, int64_t found) {
  return InvalidArgument(
      "{}: device {} holds {} of the result {} {}, and its group holds only {} of these {} elements of the "
      "operand {}; the layouts must be those that the collective exchanges.",
      x.where(), device, BlockToString(block), x.to.global.ToString(), x.to.layout->ToString(), found,
      NumElements(block), x.from.layout->ToString());
}

absl::Status CheckReducible(const Filled& x) {
  if (!AxisSet(x.axes()).Intersects(x.from.layout->ShardedAxes())) return absl::OkStatus();
  return InvalidArgument(
      "{}: the operand {} {} is sharded by an axis of {}; a reduction adds up blocks of the same place.",
      x.where(), x.from.global.ToString(), x.from.layout->ToString(), x.mesh().AxesToString(x.axes()));
}

absl::Status PlanAllReduce(const Filled& x, std::vector<Transfer>& transfers) {
  MESHWORK_RETURN_IF_ERROR(CheckReducible(x));
  if (x.from.type != x.to.type || x.from.layout->WithoutPartials() != x.to.layout->WithoutPartials()) {
    return InvalidArgument("{}: the operand is {} {} and the result {} {}; all_reduce keeps type and place.",
                           x.where(), x.from.type.ToString(), x.from.layout->ToString(), x.to.type.ToString(),
                           x.to.layout->ToString());
  }
  const AxisGroup group(x.mesh(), x.axes());
  for (int64_t i = 0; i < x.to_buffers.instances.count(); ++i) {
    const int64_t device = x.to_buffers.instances.Representative(i);
    Transfer transfer = x.NewTransfer(device);
    transfer.box = BoxCopy::Linear(x.to.type.num_elements());
    transfer.op = x.op();
    for (int64_t m = 0; m < group.size(); ++m)
      transfer.from.push_back(x.from_buffers.Of(group.Member(device, m)));
    transfers.push_back(std::move(transfer));
  }
  return absl::OkStatus();
}

absl::Status PlanReduceScatter(const Filled& x, std::vector<Transfer>& transfers) {
  MESHWORK_RETURN_IF_ERROR(CheckReducible(x));
  const AxisGroup group(x.mesh(), x.axes());
  for (int64_t i = 0; i < x.to_buffers.instances.count(); ++i) {
    const int64_t device = x.to_buffers.instances.Representative(i);
    const Block block = x.to.layout->BlockOf(x.global(), device);
    const Block common = Intersect(block, x.from.layout->BlockOf(x.global(), device));
    if (NumElements(common) != NumElements(block)) return NotCovered(x, device, block, NumElements(common));
    if (NumElements(block) == 0) continue;
    Transfer transfer = x.NewTransfer(device);
    transfer.box = BoxCopy(common, BoxBuffer::OfDevice(*x.from.layout, x.global(), device),
                           BoxBuffer::OfDevice(*x.to.layout, x.global(), device));
    transfer.op = x.op();
    for (int64_t m = 0; m < group.size(); ++m)
      transfer.from.push_back(x.from_buffers.Of(group.Member(device, m)));
    transfers.push_back(std::move(transfer));
  }
  return absl::OkStatus();
}

// Appends the copy of the elements that `device`'s result block and `source`'s operand block have in common;
// returns their number.
int64_t CopyCommon(const Filled& x, int64_t device, int64_t source, std::vector<Transfer>& transfers) {
  const Block common =
      Intersect(x.to.layout->BlockOf(x.global(), device), x.from.layout->BlockOf(x.global(), source));
  if (NumElements(common) == 0) return 0;
  Transfer transfer = x.NewTransfer(device);
  transfer.box = BoxCopy(common, BoxBuffer::OfDevice(*x.from.layout, x.global(), source),
                         BoxBuffer::OfDevice(*x.to.layout, x.global(), device));
  transfer.from.push_back(x.from_buffers.Of(source));
  transfers.push_back(std::move(transfer));
  return NumElements(common);
}

// Fills each result block from the members of the group over `axes` that hold different operand blocks.
absl::Status PlanMoveOver(const AxisList& axes, const Filled& x, std::vector<Transfer>& transfers) {
  AxisList sharding;
  for (int axis : axes)
    if (x.from.layout->ShardedAxes().Contains(axis)) sharding.push_back(axis);
  const AxisGroup group(x.mesh(), sharding);
  for (int64_t i = 0; i < x.to_buffers.instances.count(); ++i) {
    const int64_t device = x.to_buffers.instances.Representative(i);
    const Block block = x.to.layout->BlockOf(x.global(), device);
    int64_t found = 0;
    for (int64_t m = 0; m < group.size(); ++m)
      found += CopyCommon(x, device, group.Member(device, m), transfers);
    if (found != NumElements(block)) return NotCovered(x, device, block, found);
  }
  return absl::OkStatus();
}

// all_gather and all_to_all.
absl::Status PlanMove(const Filled& x, std::vector<Transfer>& transfers) {
  return PlanMoveOver(x.axes(), x, transfers);
}

absl::Status PlanAllToAllV(const Filled& x, std::vector<Transfer>& transfers) {
  if (x.from.layout->partials() != x.to.layout->partials())
    return InvalidArgument("{}: the operand {} and the result {} do not owe the same; this op only moves.",
                           x.where(), x.from.layout->ToString(), x.to.layout->ToString());
  return PlanMoveOver(GroupAxes(x.local, x.node), x, transfers);
}

AxisList PartialAxes(const Layout& layout) { return layout.PartialAxes().ToList(); }

// The device whose operand block is `device`'s result block: it holds the block's first element and, if the
// value is partial, the term of the same rank. If several devices hold the same block, each of them sends to
// one device: {x} -> {y} sends from (y,x) to (x,y). All other coordinates stay.
int64_t PermuteSource(const Filled& x, int64_t device, const Block& block) {
  Shape first(block.size());
  for (size_t d = 0; d < block.size(); ++d) first[d] = block[d].start;
  const int64_t holder = x.from.layout->Locate(x.global(), first).device;
  const AxisGroup terms(x.mesh(), PartialAxes(*x.from.layout));
  const AxisSet before = x.from.layout->ShardedAxes().Union(x.from.layout->PartialAxes()),
                after = x.to.layout->ShardedAxes().Union(x.to.layout->PartialAxes());
  const AxisGroup alike(x.mesh(), after.Minus(before).ToList());
  int64_t source =
      alike.Member(device, AxisGroup(x.mesh(), before.Minus(after).ToList()).RankOf(device) % alike.size());
  source = terms.Member(source, AxisGroup(x.mesh(), PartialAxes(*x.to.layout)).RankOf(device));
  for (int axis : x.from.layout->ShardedAxes().ToList()) {
    source +=
        (x.mesh().CoordinateOn(axis, holder) - x.mesh().CoordinateOn(axis, source)) * x.mesh().stride(axis);
  }
  return source;
}

absl::Status PlanPermute(const Filled& x, std::vector<Transfer>& transfers) {
  const int64_t from_terms = x.mesh().GroupSize(PartialAxes(*x.from.layout));
  const int64_t to_terms = x.mesh().GroupSize(PartialAxes(*x.to.layout));
  if (from_terms != to_terms) {
    return InvalidArgument(
        "{}: the operand {} is a reduction of {} and the result {} of {}; a permute only moves.", x.where(),
        x.from.layout->ToString(), Count(from_terms, "term"), x.to.layout->ToString(), to_terms);
  }
  for (int64_t i = 0; i < x.to_buffers.instances.count(); ++i) {
    const int64_t device = x.to_buffers.instances.Representative(i);
    const Block block = x.to.layout->BlockOf(x.global(), device);
    if (NumElements(block) == 0) continue;
    const int64_t found = CopyCommon(x, device, PermuteSource(x, device, block), transfers);
    if (found != NumElements(block)) return NotCovered(x, device, block, found);
  }
  return absl::OkStatus();
}

absl::Status PlanMoved(const Filled& x, std::vector<Transfer>& transfers) {
  switch (x.node.row->collective) {
    case CollectiveKind::kAllReduce: return PlanAllReduce(x, transfers);
    case CollectiveKind::kReduceScatter: return PlanReduceScatter(x, transfers);
    case CollectiveKind::kAllGather:
    case CollectiveKind::kAllToAll: return PlanMove(x, transfers);
    case CollectiveKind::kAllToAllV: return PlanAllToAllV(x, transfers);
    case CollectiveKind::kPermute: return PlanPermute(x, transfers);
    case CollectiveKind::kExchange:
    case CollectiveKind::kNone: break;
  }
  MESHWORK_CHECK(false, "collective {} has no planner", x.node.row->name);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<Transfer>> PlanCollective(const Graph& local, int node_index, int r,
                                                     const std::vector<ValueBuffers>& buffers) {
  const Node& node = local.nodes()[node_index];
  if (node.row->collective == CollectiveKind::kExchange) return PlanExchange(local, node_index, buffers);
  const Filled x{local,
                 node_index,
                 node,
                 local.value(node.operands[r]),
                 local.value(node.results[r]),
                 buffers[node.operands[r]],
                 buffers[node.results[r]]};
  if (x.from.global != x.to.global) {
    return InvalidArgument(
        "{}: the operand is part of a {}, the result of a {}; collectives move one tensor.", x.where(),
        x.from.global.ToString(), x.to.global.ToString());
  }
  std::vector<Transfer> transfers;
  MESHWORK_RETURN_IF_ERROR(PlanMoved(x, transfers));
  return transfers;
}

}  // namespace meshwork
