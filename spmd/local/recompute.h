// Recompute frees values that wait for a late reader, and computes them again for it.
//
//   %m = greater %h, %0          %m = greater %h, %0
//   %a = select %m, …            %a = select %m, …
//   …                            …                        // %m takes no memory here
//   %b = select %m, …            %n = greater %h, %0
//                                %b = select %n, …
//
// Only cheap ops are computed again: those that compute each element of the result from few elements:
// elementwise ops, broadcasts, slices, masks, generated and random numbers, which are functions of their
// seed. Never a collective, a reduction or a product. If an operand of such an op is gone, it is computed
// again, too, if it is cheap.
//
// After Chen et al., "Training Deep Nets with Sublinear Memory Cost", arXiv 1604.06174, with values chosen
// where the peak is.
#pragma once

#include <cstdint>

#include "meshwork/ir/graph.h"

namespace meshwork {

// Computes values again until the peak (ir/plan/memory_report.h) is at most `budget` bytes or nothing more
// helps; `local` itself if this does not lower its peak. The result computes the same, bit by bit.
Graph Recompute(const Graph& local, int64_t budget);

}  // namespace meshwork
