// BucketReductions joins all-reduces that can run at the same time into one, likewise reduce-scatters, and
// the all-gathers that no collective follows: those of new weights, or of gradients reduced host by host.
//
// Two of them can if they have the same axes, dim, reduction and dtype and neither needs the other's
// result, directly or through other collectives. They go together as late as they can, but what could go
// with earlier ones does not make a collective of its own. What only leaves the step (loss, metrics) goes
// with the gradients: nothing in the step waits for it.
//
// Joining always pays in the α–β model as long as nothing else runs beside a collective: one latency instead
// of many. But it holds more at a time, so in programs that gather on use (gather_on_use.h) only all-reduces
// are joined.
#pragma once

#include <cstdint>
#include <limits>

#include "meshwork/ir/graph.h"

namespace meshwork {

// `local`: a local program; a bucket has at most so many bytes of operands, and of results, or is one
// collective. The result computes the same with its nodes in an order of their own.
Graph BucketReductions(const Graph& local, int64_t most_bytes = std::numeric_limits<int64_t>::max());

}  // namespace meshwork
