// Sums before what they pass through, where devices share a process.
//
//   %g = matmul %x, %d transpose_a=true : … {_,_ | sum:batch}      %g = matmul …
//   %h = mul %g, %rate                  : … {_,_ | sum:batch}  ->  %s = all_reduce %g axes=(batch) op=sum
//   %s = all_reduce %h axes=(batch) op=sum                         %h = mul %s, %rate
//
// A compiler lets sums wait: that costs nothing between devices that are apart. Here a sum costs nothing
// where it is computed (runtime/coalesce.h), and what follows is then computed once instead of once per
// device.
//
// Pure function, thread-safe.
#pragma once

#include "meshwork/ir/graph.h"

namespace meshwork {

// `local` with every all_reduce of one value moved before the ops that its operand passed while it was owed:
// elementwise ones of a single operand that owes it, which let it pass (ir/rule.h) and which nobody else
// reads. The same results, but for rounding. Not those over axes
// `across`, which leave the domain. REQUIRES: CheckLocalProgram(local).
Graph ReduceEarly(const Graph& local, AxisSet across = {});

}  // namespace meshwork
