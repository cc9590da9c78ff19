// A step of a program, compiled far enough to see what it sends, for passes that compare layouts.
#pragma once

#include <cstdint>

#include "meshwork/ir/graph.h"
#include "meshwork/ir/plan/step_cost.h"
#include "meshwork/mesh/topology.h"
#include "meshwork/spmd/insert_relayouts.h"

namespace meshwork {

struct PlannedStep {
  Graph placed;         // with relayouts (insert_relayouts.h)
  int64_t refused = 0;  // gathers beyond the budget (spmd/planner/replication.h)
  Graph local;          // before collectives are put together (bucket.h)
};

// REQUIRES: `propagated` is Propagate's result for `pinned`.
PlannedStep PlanStep(const Graph& pinned, const Graph& propagated, const Topology& topology,
                     int64_t replication_budget);

// A step with these relayouts.
PlannedStep StepOf(InsertedRelayouts inserted, const Topology& topology);

// The cost of a step, its refused gathers included.
StepCost PlanCost(const PlannedStep& step, const Topology& topology);
// That of PlanStep's result.
StepCost PlanCost(const Graph& pinned, const Graph& propagated, const Topology& topology,
                  int64_t replication_budget);

}  // namespace meshwork
