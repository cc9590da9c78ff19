#include "meshwork/spmd/plan_step.h"

#include <iterator>
#include <utility>

#include "meshwork/spmd/local/localize.h"
#include "meshwork/spmd/planner/replication.h"
#include "meshwork/spmd/rewrite/simplify.h"

namespace meshwork {

PlannedStep PlanStep(const Graph& pinned, const Graph& propagated, const Topology& topology,
                     int64_t replication_budget) {
  return StepOf(InsertRelayouts(propagated, topology, Replication(pinned, replication_budget)), topology);
}

PlannedStep StepOf(InsertedRelayouts inserted, const Topology& topology) {
  const Mesh mesh = inserted.graph.mesh();
  PlannedStep step{std::move(inserted.graph), std::ssize(inserted.refused), Graph(mesh)};
  step.local = DropDeadCode(ShareSubexpressions(Localize(step.placed, {.topology = topology})));
  return step;
}

StepCost PlanCost(const PlannedStep& step, const Topology& topology) {
  StepCost cost = CostOf(step.local, topology);
  cost.refused = step.refused;
  return cost;
}

StepCost PlanCost(const Graph& pinned, const Graph& propagated, const Topology& topology,
                  int64_t replication_budget) {
  return PlanCost(PlanStep(pinned, propagated, topology, replication_budget), topology);
}

}  // namespace meshwork
