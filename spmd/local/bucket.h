// BucketReductions joins all-reduces that can run at the same time into one, likewise reduce-scatters, and
// the all-gathers that no collective follows: those of new weights, or of gradients reduced host by host.
//
// Two collectives can be joined if they have the same axes, dim, reduction and dtype and neither needs the
// other's result, directly or through other collectives. Collectives are joined as late as possible, but one
// that could join an earlier bucket does not make a bucket of its own. Values that only leave the step (loss,
// metrics) are reduced with the gradients: nothing in the step waits for them.
//
// Joining always pays in the α–β model as long as nothing else runs beside a collective: one latency instead
// of many. But it needs more memory at a time, so in programs that gather on use (gather_on_use.h) only
// all-reduces are joined.
#pragma once

#include <cstdint>
#include <limits>

#include "meshwork/ir/graph.h"

namespace meshwork {

// `local`: a local program. Bodies of loops and branches are treated likewise, each by itself. A bucket has at most
// `most_bytes` bytes of operands, and of results, unless it is a single collective. The result computes the same,
// with its nodes in another order.
Graph BucketReductions(const Graph& local, int64_t most_bytes = std::numeric_limits<int64_t>::max());

}  // namespace meshwork
