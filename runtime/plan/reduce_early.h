// Makes sums before the ops that they have passed, if devices share a process.
//
//   %g = matmul %x, %d transpose_a=true : … {_,_ | sum:batch}      %g = matmul …
//   %h = mul %g, %rate                  : … {_,_ | sum:batch}  ->  %s = all_reduce %g axes=(batch) op=sum
//   %s = all_reduce %h axes=(batch) op=sum                         %h = mul %s, %rate
//
// A compiler lets sums wait, which costs nothing if devices do not share memory. Within a process, a sum
// costs nothing if the kernel that computes the terms makes it (runtime/plan/coalesce.h), and the ops after it are
// then computed once instead of once per device.
//
// Pure function, thread-safe.
#pragma once

#include "meshwork/ir/graph.h"

namespace meshwork {

// `local` with every all_reduce of one value moved before the ops that the partial value has passed through:
// elementwise ops and views with a single partial operand that let the sum pass (ir/rule.h) and whose result has no
// other reader. The results are the same, up to rounding. An all_reduce over axes `across`, which leaves the
// domain, stays.
// REQUIRES: CheckLocalProgram(local).
Graph ReduceEarly(const Graph& local, AxisSet across = {});

}  // namespace meshwork
