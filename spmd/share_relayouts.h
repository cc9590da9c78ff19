// Gathers that several ops share, and sums that are scattered together.
//
//   func f(%a: f32[64,32] {x,_}, %w: f32[32,64] {_,x}, %v: f32[32,64] {_,x}) {
//     %c = matmul %a, %w          each product alone gathers its weight, which costs as much as %a;
//     %d = matmul %a, %v          both together gather %a once
//
// ChooseCuts costs each op alone. ShareRelayouts counts a relayout that several readers of a value need only
// once, and the sums of several terms that owe the same as one sum; it changes how ops run if that costs less
// in all.
//
// Propagate guessed the layouts of results; bringing results into these layouts may cost what sharing saves,
// see try_sharing.h.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/mesh/topology.h"
#include "meshwork/spmd/choose_cuts.h"
#include "meshwork/spmd/replication.h"

namespace meshwork {

// How ops run, per node; nothing for a relayout.
using Choices = std::vector<std::optional<Choice>>;

// Whether anything can be shared: two ops that move data read one value, or their results are added up.
bool MayShare(const Graph& graph, const Choices& choices);

// Changes `choices`, of a graph that Propagate has laid out, to choices that cost less if relayouts are
// shared. A value whose gather `replication` refuses is not gathered, unless the layouts imply it.
void ShareRelayouts(const Graph& graph, const Topology& topology, const Replication& replication,
                    Choices& choices);

// A layout of a value on which several ops could run while their other operands stay where they lie.
struct Shareable {
  // Results that are not locked, with the layouts that the ops would leave.
  std::vector<std::pair<ValueId, Layout>> results;
  double gain = 0;  // seconds saved if the results may have these layouts
};

// What could be shared if results kept the layouts that their ops leave. `locked`: per value, whether its
// layout must stay. At most one layout per value, with which at least one result would not have the layout
// wanted now.
std::vector<Shareable> Shareables(const Graph& graph, const Topology& topology,
                                  const Replication& replication, Choices choices,
                                  const std::vector<bool>& locked);

}  // namespace meshwork
