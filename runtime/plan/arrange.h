// The local program in the order in which one process runs it.
//
// A compiler orders a program for devices that do not share memory: gradients first, then one all_reduce of
// many, then the updates. Within a process nothing is sent, so each value goes to the only op that reads it
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

// `local` with every collective of several values split into one for each value. Every cheap op (no product)
// is moved up behind the op that computes its operand, if the operand has no other reader, all its other
// operands are available there, and no variable of which it gives the new value is read later. All other
// nodes stay in order; the values are the same. A collective over the axes `across` leaves the domain: it is
// not split and stays where it is (runtime/plan/overlap.h).
// REQUIRES: CheckLocalProgram(local).
Graph Arrange(const Graph& local, AxisSet across = {});

}  // namespace meshwork
