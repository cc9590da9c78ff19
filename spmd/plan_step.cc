#include "meshwork/spmd/plan_step.h"

#include <iterator>
#include <optional>
#include <utility>

#include "meshwork/ops/control/live_values.h"
#include "meshwork/spmd/choose_layouts.h"
#include "meshwork/spmd/insert_relayouts.h"
#include "meshwork/spmd/planner/replication.h"
#include "meshwork/spmd/rewrite/simplify.h"

namespace meshwork {

PlannedStep PlanStep(const Graph& pinned, const Graph& propagated, const StepPlanning& planning) {
  const Replication replication(pinned, planning.replication_budget);
  InsertedRelayouts inserted = InsertRelayouts(propagated, planning.topology, replication);
  if (planning.searches) {
    SearchWork own(kWorkOfCompile, pinned.nodes().size());
    std::optional<ChosenLayouts> chosen = ChooseLayouts(
        pinned, propagated, inserted, planning.loops, planning.topology, replication, planning.memory_budget,
        planning.is_short, planning.work != nullptr ? *planning.work : own);
    if (chosen.has_value()) inserted = std::move(chosen->inserted);
  }
  Graph local = DropDeadCode(ShareSubexpressions(LocalOf(inserted, planning.loops, planning.topology)));
  return {std::move(inserted.graph), std::ssize(inserted.refused), std::move(local)};
}

StepCost PlanCost(const Graph& pinned, const Graph& propagated, const StepPlanning& planning) {
  const PlannedStep step = PlanStep(pinned, propagated, planning);
  StepCost cost = CostOf(step.local, planning.topology);
  cost.refused = step.refused;
  return cost;
}

}  // namespace meshwork
