// Gathers that several ops share, and sums that are scattered together.
//
//   func f(%a: f32[64,32] {x,_}, %w: f32[32,64] {_,x}, %v: f32[32,64] {_,x}) {
//     %c = matmul %a, %w          each product alone gathers its weight, which costs as much as %a;
//     %d = matmul %a, %v          both together gather %a once
//
// ChooseCuts costs each op alone. ShareRelayouts counts a layout that several readers of a value bring it to
// once, and a sum of terms that are owed alike as one, and has ops run so where that costs less in all.
//
// How results are wanted was guessed by Propagate, and taking them there may cost what is saved:
// try_sharing.h.
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

// Whether anything can be shared: two ops that move something read one value, or add up.
bool MayShare(const Graph& graph, const Choices& choices);

// Changes `choices`, of a graph that Propagate has laid out, to what costs less if relayouts are shared. What
// `replication` refuses is not gathered, unless the layouts imply it.
void ShareRelayouts(const Graph& graph, const Topology& topology, const Replication& replication,
                    Choices& choices);

// A layout of a value on which several ops could run while their other operands stay where they lie.
struct Shareable {
  std::vector<std::pair<ValueId, Layout>> results;  // that are not locked, as the ops would leave them
  double gain = 0;                                  // seconds, if they may lie so
};

// What could be shared if results that are not `locked`, per value, lay as their ops leave them; at most one
// layout per value, of which one result at least would lie otherwise than it is wanted.
std::vector<Shareable> Shareables(const Graph& graph, const Topology& topology,
                                  const Replication& replication, Choices choices,
                                  const std::vector<bool>& locked);

}  // namespace meshwork
