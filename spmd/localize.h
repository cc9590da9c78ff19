// Localize turns a global program with relayouts into the program each device runs: block shapes,
// relayouts spelled out as slices and collectives, padding masked where a reduction would see it.
#pragma once

#include <cstdint>
#include <vector>

#include "mesh/topology.h"
#include "ops/graph.h"

namespace meshwork {

struct LocalizeOptions {
  // What operand and result of one step of a relayout may take on a device. Where no plan stays below, the
  // one that takes least is written. 0: what PlanRelayout allows by itself, which sends least.
  int64_t relayout_bytes = 0;
  // Unless it is assumed, relayouts take the least time by it.
  Topology topology = {};
};

// `graph`: the result of InsertRelayouts. No device is singled out: what differs between devices is
// a function of the coordinate inside the ops.
Graph Localize(const Graph& graph, const LocalizeOptions& options = {});

// What the steps of a relayout node may be made to take, in bytes, by the plan that sends least and by those
// that take less and less: the values of relayout_bytes at which Localize writes another plan. Descending.
std::vector<int64_t> RelayoutPeaks(const Graph& graph, const Node& relayout, const Topology& topology = {});

}  // namespace meshwork
