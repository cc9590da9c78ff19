// A step of a program, compiled far enough to see what it sends, for passes that compare layouts.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

#include "meshwork/ir/graph.h"
#include "meshwork/mesh/topology.h"

namespace meshwork {

struct PlannedStep {
  Graph placed;        // with relayouts (insert_relayouts.h)
  size_t refused = 0;  // gathers beyond the budget (spmd/planner/replication.h)
  Graph local;         // before collectives are put together (bucket.h)
};

// REQUIRES: `propagated` is Propagate's result for `pinned`.
PlannedStep PlanStep(const Graph& pinned, const Graph& propagated, const Topology& topology,
                     int64_t replication_budget);

// What a step costs; less is better.
struct PlannedCost {
  size_t refused = 0;  // gathers beyond the budget
  double seconds = 0;  // in collectives, if the topology is known
  int64_t bytes = 0;   // on the wire, per device

  auto operator<=>(const PlannedCost&) const = default;  // NOLINT(modernize-use-nullptr): it misreads <=>
};

// The cost of PlanStep's result.
PlannedCost PlanCost(const Graph& pinned, const Graph& propagated, const Topology& topology,
                     int64_t replication_budget);

}  // namespace meshwork
