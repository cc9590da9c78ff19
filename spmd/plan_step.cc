#include "spmd/plan_step.h"

#include "ops/explain.h"
#include "spmd/insert_relayouts.h"
#include "spmd/localize.h"
#include "spmd/replication.h"
#include "spmd/simplify.h"

namespace meshwork {

PlannedStep PlanStep(const Graph& pinned, const Graph& propagated, const Topology& topology,
                     int64_t replication_budget) {
  const InsertedRelayouts placed =
      InsertRelayouts(propagated, topology, Replication(pinned, replication_budget));
  const Graph local = Localize(placed.graph, {.topology = topology});
  return {placed.refused.size(), DropDeadCode(ShareSubexpressions(local))};
}

PlannedCost PlanCost(const Graph& pinned, const Graph& propagated, const Topology& topology,
                     int64_t replication_budget) {
  const PlannedStep step = PlanStep(pinned, propagated, topology, replication_budget);
  const StepCost cost = CostOf(step.local, topology);
  return {step.refused, cost.seconds, cost.bytes};
}

}  // namespace meshwork
