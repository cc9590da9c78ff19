#include "meshwork/ir/plan/step_cost.h"

#include "meshwork/base/saturate.h"
#include "meshwork/ir/plan/memory_report.h"
#include "meshwork/ir/program_cost.h"

namespace meshwork {

StepCost CostOf(const Graph& local, const Topology& topology) {
  StepCost cost{.peak_bytes = LogicalPeakBytes(local)};
  ForCollectives(local, [&](const Graph& program, const Node& node, int64_t times) {
    cost.collectives = SaturatedSum(cost.collectives, times);
    const Traffic traffic = WireTraffic(program, node);
    cost.bytes = SaturatedSum(cost.bytes, SaturatedProduct(times, traffic.busiest()));
    cost.received = SaturatedSum(cost.received, SaturatedProduct(times, traffic.received));
    if (!topology.is_assumed())
      cost.seconds += static_cast<double>(times) * CollectiveSeconds(program, node, topology);
  });
  return cost;
}

}  // namespace meshwork
