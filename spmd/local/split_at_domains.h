// SplitAtDomains splits each reduction over devices of several domains (mesh/placement.h) into one within
// every domain and one across domains.
//
//   mesh [batch=2*4, model=2], 2 domains: batch:(1)2 crosses them
//
//   %s = all_reduce %g axes=(batch) op=sum            %0 = all_reduce %g axes=(batch:(2)4) op=sum
//                                                     %s = all_reduce %0 axes=(batch:(1)2) op=sum
//
//   %s = reduce_scatter %g axes=(batch) dim=0 op=sum  %0 = all_reduce %g axes=(batch:(2)4) op=sum
//                                                     %1 = reduce_scatter %0 axes=(batch:(1)2) dim=0 op=sum
//                                                     %s = shard_slice %1 axes=(batch:(2)4) dim=0
//
// Values that the devices of a domain have in common are stored there once, so a sum is sent to another
// domain once, not once per device. If the dim of a reduce_scatter is uneven, such that the blocks of its
// parts do not nest, the sum is made whole and then cut. Collectives that only move elements stay as they
// are: the runtime sends each element to a domain once, whatever the collective.
//
// Two sums, within domains and across them, add up in another order than one sum over all devices; the order
// follows from the program and the number of domains. Pure function; thread-safe.
#pragma once

#include "meshwork/ir/graph.h"
#include "meshwork/mesh/placement.h"

namespace meshwork {

// REQUIRES: `local` is a local program on placement.mesh(), which may be cut further.
Graph SplitAtDomains(const Graph& local, const Placement& placement);

}  // namespace meshwork
