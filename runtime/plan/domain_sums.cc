#include "meshwork/runtime/plan/domain_sums.h"

#include <utility>

#include "meshwork/ir/collective_spec.h"

namespace meshwork {
namespace {

// All instances of a value, as one.
BufferId WholeOf(const ValueBuffers& value, StepPlan& plan) {
  Buffer whole = plan.buffers[static_cast<size_t>(value.first)];
  whole.bytes = plan.BytesOf(value);
  plan.buffers.push_back(whole);
  return static_cast<BufferId>(plan.buffers.size()) - 1;
}

}  // namespace

bool NcclReduces(DType dtype, ReduceOp op) {
  const bool adds = op == ReduceOp::kSum || op == ReduceOp::kProd;
  switch (dtype) {
    case DType::kF32:
    case DType::kF64:
    case DType::kBF16: return adds;
    case DType::kI32:
    case DType::kI64: return adds || op == ReduceOp::kMax || op == ReduceOp::kMin;
    default: return false;
  }
}

bool IsDomainSum(const Graph& local, int node, const Placement& placement,
                 const std::vector<ValueBuffers>& values) {
  const Node& sum = local.nodes()[static_cast<size_t>(node)];
  const CollectiveSpec spec = CollectiveOf(sum);
  if (spec.kind != CollectiveKind::kAllReduce) return false;
  AxisSet group;
  for (int axis : spec.axes)
    if (local.mesh().axis(axis).size > 1) group.Add(axis);
  if (group != placement.across()) return false;
  for (size_t r = 0; r < sum.results.size(); ++r) {
    const ValueInfo &operand = local.value(sum.operands[r]), &result = local.value(sum.results[r]);
    if (!NcclReduces(result.type.dtype, spec.op)) return false;
    // Such a node is an error, which planning it with messages reports (CrossingPlanner::Plan).
    if (operand.global != result.global || operand.layout->dims() != result.layout->dims() ||
        AxisSet(spec.axes).Intersects(operand.layout->ShardedAxes()))
      return false;
    if (values[sum.operands[r]].instances.axes() != values[sum.results[r]].instances.axes()) return false;
  }
  return true;
}

CrossingSteps PlanDomainSum(int node, const std::vector<ValueBuffers>& values, StepPlan& plan) {
  const Node& sum = plan.graph->nodes()[static_cast<size_t>(node)];
  RemoteStep remote{.kind = RemoteStep::Kind::kStart, .node = node, .operation = plan.num_operations++};
  for (size_t r = 0; r < sum.results.size(); ++r) {
    const DType dtype = plan.graph->value(sum.results[r]).type.dtype;
    const int64_t elements = plan.BytesOf(values[sum.results[r]]) / DTypeSize(dtype);
    if (elements == 0) continue;
    remote.sums.push_back({dtype, CollectiveOf(sum).op, elements});
    remote.sends.push_back({RemoteStep::kAllDomains, WholeOf(values[sum.operands[r]], plan)});
    remote.receives.push_back({RemoteStep::kAllDomains, WholeOf(values[sum.results[r]], plan)});
  }
  CrossingSteps steps;
  steps.begin.emplace_back(remote);
  remote.kind = RemoteStep::Kind::kWait;
  steps.middle.emplace_back(std::move(remote));
  return steps;
}

}  // namespace meshwork
