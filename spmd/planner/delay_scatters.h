// DelayScatters has ops run on sums before they are scattered, where their results are less to scatter.
//
//   %c = matmul %a, %w      %c owes a sum over x, and so does %d
//   %d = matmul %b, %v
//   %e = add %c, %d         is wanted as {x,_}: scattering %e is half of what scattering %c and %d is
//
// Where operands owe the same over axes by which an op would be cut, and it can pass that on, it runs on them
// as they are. That sends less where several operands owe, or where the op shrinks what one of them owes. So
// do ops on the way there that pass on what one operand owes, as a factor does. Thread-safe for different
// choices.
#pragma once

#include <optional>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/mesh/topology.h"
#include "meshwork/spmd/planner/choose_cuts.h"
#include "meshwork/spmd/planner/replication.h"

namespace meshwork {

// Changes `choices`, per node of `graph` and nothing for a relayout, where that sends less. What
// `replication` refuses is not gathered.
void DelayScatters(const Graph& graph, const Topology& topology, const Replication& replication,
                   std::vector<std::optional<Choice>>& choices);

}  // namespace meshwork
