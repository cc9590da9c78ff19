// A step of a program, compiled far enough to see what it sends: for passes that change a program and keep it if its
// step costs less.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/ir/plan/step_cost.h"
#include "meshwork/mesh/topology.h"
#include "meshwork/ops/control/loops.h"
#include "meshwork/spmd/planner/work.h"

namespace meshwork {

struct StepPlanning {
  Topology topology = {};
  // As CompileOptions have them.
  int64_t replication_budget = std::numeric_limits<int64_t>::max();
  int64_t memory_budget = 0;
  // The loops that are opened in the program. Their bodies count as often as they run.
  std::vector<OpenedLoop> loops = {};
  bool searches = true;        // choose_layouts searches; false: as insert_relayouts leaves the program
  bool is_short = false;       // the program stands for one of more layers (short_program.h)
  SearchWork* work = nullptr;  // what searches draw on; null: each has what a compile may take
};

struct PlannedStep {
  Graph placed;         // with relayouts
  int64_t refused = 0;  // gathers beyond the budget (spmd/planner/replication.h)
  Graph local;          // before collectives are put together (bucket.h)
};

// Lays `pinned` out as Compile does. REQUIRES: `propagated` is Propagate's result for it.
PlannedStep PlanStep(const Graph& pinned, const Graph& propagated, const StepPlanning& planning);

// The cost of such a step, its refused gathers included.
StepCost PlanCost(const Graph& pinned, const Graph& propagated, const StepPlanning& planning);

}  // namespace meshwork
