// PlannedCost says what a step would cost if its values lay as given, for passes that compare layouts.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

#include "mesh/topology.h"
#include "ops/graph.h"

namespace meshwork {

// Less is better.
struct PlannedCost {
  size_t refused = 0;  // gathers that the budget does not allow
  double seconds = 0;  // in collectives, if the topology is known
  int64_t bytes = 0;   // on the wire, per device

  auto operator<=>(const PlannedCost&) const = default;
};

// `propagated`: what Propagate makes of `pinned`.
PlannedCost PlanCost(const Graph& pinned, const Graph& propagated, const Topology& topology, int64_t budget);

}  // namespace meshwork
