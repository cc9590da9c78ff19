// Localize turns a global program with relayouts into the program each device runs: block shapes,
// relayouts spelled out as slices and collectives, padding masked where a reduction would see it.
#pragma once

#include "layout/relayout.h"
#include "ops/graph.h"

namespace meshwork {

// `graph`: the result of InsertRelayouts. No device is singled out: what differs between devices is
// a function of the coordinate inside the ops.
Graph Localize(const Graph& graph, const RelayoutOptions& relayouts = {});

}  // namespace meshwork
