// PlanStep makes a step of a program far enough to see what it sends, for passes that try several.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mesh/topology.h"
#include "ops/graph.h"

namespace meshwork {

struct PlannedStep {
  size_t refused = 0;  // gathers beyond the budget (replication.h)
  Graph local;         // before collectives are put together (bucket.h)
};

// REQUIRES: `propagated` is Propagate's result for `pinned`.
PlannedStep PlanStep(const Graph& pinned, const Graph& propagated, const Topology& topology,
                     int64_t replication_budget);

}  // namespace meshwork
