// Gathers that several ops share, and sums that are scattered together.
//
//   func f(%a: f32[64,32] {x,_}, %w: f32[32,64] {_,x}, %v: f32[32,64] {_,x}) {
//     %c = matmul %a, %w          each product alone gathers its weight, which costs as much as %a;
//     %d = matmul %a, %v          both together gather %a once
//
// ChooseCuts costs each op alone. ShareRelayouts counts a layout that several readers of a value bring it to
// once, and a sum of terms that are owed alike as one, and has ops run so where that costs less in all.
//
// How results are wanted was guessed by Propagate from where the value lay, and taking them there may cost
// what is saved. So CheaperByShared lays results that nobody has pinned out as their ops would leave them,
// propagates anew, and keeps of these programs the one that costs least. It tries all such values at once,
// then those whose part of the program has become cheaper; and looks once more in what comes of it. So a
// program is planned five times more at most, and not once where nothing can be shared.
#pragma once

#include <optional>
#include <vector>

#include "mesh/topology.h"
#include "ops/graph.h"
#include "spmd/choose_cuts.h"
#include "spmd/insert_relayouts.h"
#include "spmd/propagate.h"
#include "spmd/replication.h"

namespace meshwork {

// Changes `choices`, of a graph that Propagate has laid out, to what costs less if relayouts are shared. What
// `replication` refuses is not gathered, unless the layouts imply it.
void ShareRelayouts(const Graph& graph, const Topology& topology, const Replication& replication,
                    std::vector<std::optional<Choice>>& choices);

struct SharedProgram {
  PropagateResult propagated;
  InsertedRelayouts inserted;
};

// `pinned`: a global program; `propagated` what Propagate makes of it, `now` what InsertRelayouts makes of
// that. Another program that takes less time for communication and in all, or `now` gathers what is refused
// and it does not; nothing if none is found. Law: values that are pinned lie as they are pinned.
std::optional<SharedProgram> CheaperByShared(const Graph& pinned, const Graph& propagated,
                                             const InsertedRelayouts& now, const Topology& topology,
                                             const Replication& replication);

}  // namespace meshwork
