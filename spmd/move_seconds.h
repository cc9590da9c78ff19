// What it takes to bring a value into another layout: its blocks may move, or those of what it is computed
// of, where these are fewer bytes.
//
//   %c = cast %b dtype=f32   bf16 -> f32     gather %b, and cast what came: half the bytes
//   %o = one_hot %i          i32[n] -> [n,k] gather the indices
//
// An op is run elsewhere like that if it computes each element of what its operands hold there, sums nothing,
// and what it reads is smaller than what it gives: so that what is sent is less, and little is computed
// twice.
#pragma once

#include <optional>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/mesh/topology.h"

namespace meshwork {

// What it takes to bring a value of this type from one layout to another, in seconds. Where the topology is
// assumed, latencies do not count. What owes a sum of bf16 is sent as f32, unless it is picked (OnlyMoves).
double RelayoutSeconds(const Layout& from, const Layout& to, const Type& type, const Topology& topology,
                       bool is_picked = false);

// How the operands of `node` lie where its one result lies as `to`, if it may run elsewhere; else nothing.
std::optional<std::vector<Layout>> OperandsElsewhere(const Graph& graph, const Node& node, const Layout& to);

// To run the op that computes `id` elsewhere, so that its result lies as `to`; nothing if it may not.
std::optional<double> ElsewhereSeconds(const Graph& graph, ValueId id, const Layout& to,
                                       const Topology& topology);

// To bring `id`, which lies as the graph says, to `to`, by the cheaper way. Arithmetic counts.
double MoveSeconds(const Graph& graph, ValueId id, const Layout& to, const Topology& topology);

}  // namespace meshwork
