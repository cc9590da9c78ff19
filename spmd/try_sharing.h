// Whole programs in which more is shared (share_relayouts.h).
//
// Propagate guessed the layouts of results from where the value lay; bringing results into these layouts may
// cost what sharing saves. So CheaperByShared gives unpinned results the layouts that their ops would leave,
// propagates again, and keeps the program that costs least. It tries all such values at once, then those
// whose part of the program has become cheaper, and searches once more in the result. So a program is planned
// at most five more times, and not once more if nothing can be shared.
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

// `pinned`: a global program; `propagated`: Propagate's result for it; `now`: InsertRelayouts' result for
// that. Returns another program that takes less time, both for communication and in all, or that gathers
// nothing refused while `now` does; nothing if none is found. Law: pinned values keep their pinned layouts.
std::optional<SharedProgram> CheaperByShared(const Graph& pinned, const Graph& propagated,
                                             const InsertedRelayouts& now, const Topology& topology,
                                             const Replication& replication);

}  // namespace meshwork
