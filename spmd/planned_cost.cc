#include "spmd/planned_cost.h"

#include "ops/explain.h"
#include "spmd/insert_relayouts.h"
#include "spmd/localize.h"
#include "spmd/replication.h"
#include "spmd/simplify.h"

namespace meshwork {

PlannedCost PlanCost(const Graph& pinned, const Graph& propagated, const Topology& topology, int64_t budget) {
  const InsertedRelayouts placed = InsertRelayouts(propagated, topology, Replication(pinned, budget));
  const Graph local = Localize(placed.graph, {.topology = topology});
  const StepCost cost = CostOf(DropDeadCode(ShareSubexpressions(local)), topology);
  return {placed.refused.size(), cost.seconds, cost.bytes};
}

}  // namespace meshwork
