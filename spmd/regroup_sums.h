// RegroupSums adds first what owes a sum over the same axes, so that one reduction does for all of it.
//
//   (p + r) + q   ->   (p + q) + r      p and q owe a sum over x, r is whole: one reduce-scatter, not two
//   r - p - q     ->   r - (p + q)
//
// The terms of a sum are reached through add, sub and neg of one type that nobody else reads and no layout is
// pinned to. What a term owes is read off the axes by which its op, or the one it scales, runs
// (choose_cuts.h). Equal over the reals; floats round otherwise.
//
// It is done where the step then sends fewer bytes, in no more collectives and by a topology that is known in
// no more time.
#pragma once

#include <cstdint>
#include <limits>

#include "meshwork/ir/graph.h"
#include "meshwork/mesh/topology.h"

namespace meshwork {

// A global program, before Propagate. One that has nothing to regroup is returned as it is; one without sums
// in which reductions meet only after other terms costs one look at its nodes: products that stand together
// stay so, even if only some of them owe. `replication_budget`: see CompileOptions.
Graph RegroupSums(const Graph& graph, const Topology& topology = {},
                  int64_t replication_budget = std::numeric_limits<int64_t>::max());

}  // namespace meshwork
