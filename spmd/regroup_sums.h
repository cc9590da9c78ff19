// RegroupSums first adds the terms that owe a sum over the same axes, so that one reduction serves them all.
//
//   (p + r) + q   ->   (p + q) + r      p and q owe a sum over x, r is whole: one reduce-scatter, not two
//   r - p - q     ->   r - (p + q)
//
// The terms of a sum are found through add, sub and neg nodes of one type that have no other reader and no
// pin. What a term owes follows from the axes along which its op, or the op that it scales, runs
// (spmd/planner/choose_cuts.h). Equal over the reals; floats round differently.
//
// Sums are regrouped if the step is then cheaper (ir/plan/step_cost.h), because it sends fewer bytes, in no more
// collectives.
#pragma once

#include "meshwork/ir/graph.h"
#include "meshwork/spmd/plan_step.h"

namespace meshwork {

// `graph`: a global program, before Propagate; returned as it is if there is nothing to regroup. A program
// without sums in which reductions meet only after other terms costs one pass over its nodes: products that
// stand together stay together, even if only some of them owe a sum.
Graph RegroupSums(Graph graph, const StepPlanning& planning = {});

}  // namespace meshwork
