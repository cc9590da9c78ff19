// The local program in the order in which one process runs it.
//
// A compiler orders a program for devices that are apart: gradients first, then one all_reduce of many, then
// the updates. Within a process there is nothing to send, so each value goes to the only op that reads it
// while it is still in the cache:
//
//   %g1 = matmul …                                  %g1 = matmul …
//   %g2 = matmul …                                  %s1 = all_reduce %g1
//   %s1, %s2 = all_reduce %g1, %g2          ->      %w1, … = adam_update %dense1, %s1, …
//   %w1, … = adam_update %dense1, %s1, …            %g2 = matmul …
//   %w2, … = adam_update %dense2, %s2, …            …
//
// Pure function, thread-safe.
#pragma once

#include "meshwork/ir/graph.h"

namespace meshwork {

// `local` with every collective of several values as one of each, and every op that is cheap (no product)
// moved up behind what computes its operand, if nobody else reads that, all its other operands can be had by
// then, and no variable that it is the new value of is still read. Otherwise in the order of `local`; the
// same values. What is moved over the axes `across` leaves the domain: that stays one collective, where it
// is. REQUIRES: CheckLocalProgram(local).
Graph Arrange(const Graph& local, AxisSet across = {});

}  // namespace meshwork
