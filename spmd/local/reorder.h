// Reorder puts the nodes of a local program in an order in which less memory is live at a time.
//
//   %a = exp %x                  %a = exp %x
//   %b = tanh %x                 %p = reduce_sum %a
//   %p = reduce_sum %a    ->     %b = tanh %x          // %a is free by now
//   %q = reduce_sum %b           %q = reduce_sum %b
//
// Greedy list scheduling: of the nodes whose operands are there, the one after which the fewest bytes are
// live comes next; among equals the one that came first before. Collectives keep their order, which all
// devices share. Takes time linear in the program, up to a logarithm.
#pragma once

#include "meshwork/ir/graph.h"

namespace meshwork {

// `local` itself if the order found does not lower its peak (ir/plan/memory_report.h). The result computes the
// same.
Graph Reorder(const Graph& local);

}  // namespace meshwork
