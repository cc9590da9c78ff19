// The error for a program that needs gathers which nobody asked for (spmd/planner/replication.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "meshwork/ir/graph.h"
#include "meshwork/mesh/topology.h"

namespace meshwork {

// A gather beyond the budget.
struct RefusedGather {
  ValueId value = kNoValue;
  Layout from;                  // its blocks
  int node = -1;                // the op that needs or gives the value; -1: an update
  ValueId variable = kNoValue;  // of an update: the variable that is to hold the value
};

// Takes those gathers out of `refused` that give a value the layout of others of its kind: the value is an activation,
// and another activation of its shape, which is not computed from a refused gather, lies whole on every device. On a
// mesh without an axis for the batch, all activations of a model lie so. Values of a variable's shape, such as
// gradients, and updates stay in `refused`. Returns a line for each gather taken out. `pinned`: before Propagate;
// `laid_out`: with the layouts of all values.
std::vector<std::string> TakeOutUsualGathers(const Graph& pinned, const Graph& laid_out,
                                             std::vector<RefusedGather>& refused);

// The error for the user: the largest of `refused`, the layouts in conflict with their lines, and the cheapest
// layout that avoids the gather, found by trying. `global`: before Propagate.
// REQUIRES: `refused` is InsertRelayouts' for `global` on this topology, and not empty.
absl::Status ReplicationError(const Graph& global, const std::vector<RefusedGather>& refused,
                              const Topology& topology, int64_t budget);

}  // namespace meshwork
