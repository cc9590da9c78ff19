// The costs of a node in a step: how often it runs, what it sends, how long that takes, and its operations. Costs of
// whole programs are in ir/program.h and ir/plan/step_cost.h.
//
// Pure functions; thread-safe.
#pragma once

#include <cstdint>

#include "meshwork/base/saturate.h"
#include "meshwork/ir/graph.h"
#include "meshwork/layout/layout.h"
#include "meshwork/layout/traffic.h"
#include "meshwork/mesh/topology.h"

namespace meshwork {

// How often a region of a node runs in a step. A loop without a known length counts as one iteration; each of
// two branches counts as if it were chosen. 1 for a node without regions.
int64_t TimesOf(const Node& node);

// Whether a node sends anything between devices: it is a collective, but not an exchange in which each device
// already has all that it needs.
bool Communicates(const Graph& local, const Node& node);

// Calls f(program, node, times) for every node that communicates, also in the bodies of loops. `times`: how often it
// runs in a step.
template <typename F>
void ForCollectives(const Graph& local, F&& f, int64_t times = 1) {
  for (const Node& node : local.nodes()) {
    for (const auto& region : node.regions)
      ForCollectives(*region, f, SaturatedProduct(times, TimesOf(node)));
    if (Communicates(local, node)) f(local, node, times);
  }
}

// Bytes that devices send and receive for one collective. With B the bytes of the gathered or reduced buffer,
// l those of the local operand and n the group's size: all-reduce 2(n-1)/n·B, reduce-scatter and all-gather
// (n-1)/n·B, all-to-all (n-1)/n·l, collective-permute l, both ways. Whole blocks count, padding included.
// In an all-to-all-v or exchange, one way may be busier: see AllToAllVTraffic (layout/relayout_cost.h) and
// ExchangeTraffic (ir/exchange.h).
Traffic WireTraffic(const Graph& local, const Node& node);
// The bytes that the busiest link carries in one direction.
int64_t WireBytes(const Graph& local, const Node& node);

// The axes along which a collective moves data: those of its group, or those along which blocks change
// places.
AxisList GroupAxes(const Graph& local, const Node& node);

// The time that one collective takes by the topology, in seconds.
double CollectiveSeconds(const Graph& local, const Node& node, const Topology& topology);

// Floating-point operations of one node: as its row counts them, otherwise one per result element.
double FlopsOf(const Graph& graph, const Node& node);

}  // namespace meshwork
