// Whole programs in which more is shared (share_relayouts.h).
//
// How results are wanted was guessed by Propagate from where the value lay, and taking them there may cost
// what is saved. So CheaperByShared lays results that nobody has pinned out as their ops would leave them,
// propagates anew, and keeps of these programs the one that costs least. It tries all such values at once,
// then those whose part of the program has become cheaper; and looks once more in what comes of it. So a
// program is planned five times more at most, and not once where nothing can be shared.
#pragma once

#include <optional>

#include "meshwork/ir/graph.h"
#include "meshwork/mesh/topology.h"
#include "meshwork/spmd/insert_relayouts.h"
#include "meshwork/spmd/propagate.h"
#include "meshwork/spmd/replication.h"

namespace meshwork {

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
