#include "meshwork/spmd/plan_step.h"

#include <iterator>
#include <utility>

#include "meshwork/spmd/insert_relayouts.h"
#include "meshwork/spmd/local/localize.h"
#include "meshwork/spmd/planner/replication.h"
#include "meshwork/spmd/rewrite/simplify.h"

namespace meshwork {

PlannedStep PlanStep(const Graph& pinned, const Graph& propagated, const Topology& topology,
                     int64_t replication_budget) {
  const Replication replication(pinned, replication_budget);
  InsertedRelayouts inserted = InsertRelayouts(propagated, topology, replication);
  PlannedStep step{std::move(inserted.graph), std::ssize(inserted.refused), Graph(pinned.mesh())};
  step.local = DropDeadCode(ShareSubexpressions(Localize(step.placed, {.topology = topology})));
  return step;
}

StepCost PlanCost(const Graph& pinned, const Graph& propagated, const Topology& topology,
                  int64_t replication_budget) {
  const PlannedStep step = PlanStep(pinned, propagated, topology, replication_budget);
  StepCost cost = CostOf(step.local, topology);
  cost.refused = step.refused;
  return cost;
}

}  // namespace meshwork
