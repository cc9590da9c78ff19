// DelayScatters makes ops run on sums before these are scattered, if scattering the results sends less.
//
//   %c = matmul %a, %w      %c owes a sum over x, and so does %d
//   %d = matmul %b, %v
//   %e = add %c, %d         is wanted as {x,_}: scattering %e is half of what scattering %c and %d is
//
// If operands owe the same sum over axes by which an op would be cut, and the op can pass the sum on, it runs
// on the operands as they are. That sends less if several operands owe, or if the op shrinks the one operand
// that owes. An op before it that passes on what one operand owes, such as a multiplication by a factor, runs
// on the owing operand, too. Thread-safe for different choices.
#pragma once

#include <optional>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/mesh/topology.h"
#include "meshwork/spmd/planner/choose_cuts.h"
#include "meshwork/spmd/planner/replication.h"

namespace meshwork {

// Changes `choices` if that sends less. `choices`: per node of `graph`, nothing for a relayout. Adds no gather
// that `replication` refuses.
void DelayScatters(const Graph& graph, const Topology& topology, const Replication& replication,
                   std::vector<std::optional<Choice>>& choices);

}  // namespace meshwork
