// RegroupSums adds first what owes a sum over the same axes, so that one reduction does for all of it.
//
//   (p + r) + q   ->   (p + q) + r      p and q owe a sum over x, r is whole: one reduce-scatter, not two
//   r - p - q     ->   r - (p + q)
//
// The terms of a sum are reached through add, sub and neg of one type that nobody else reads and no layout is
// pinned to. What a term owes is read off the axes by which its op, or the one it scales, runs
// (choose_cuts.h). Equal over the reals; floats round otherwise.
#pragma once

#include "ops/graph.h"

namespace meshwork {

// A global program, before Propagate. One that has nothing to regroup is returned as it is; one without sums
// of three terms, two of them reductions, costs one look at its nodes.
Graph RegroupSums(const Graph& graph);

}  // namespace meshwork
