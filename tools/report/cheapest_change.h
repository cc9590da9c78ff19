// For each collective the cheapest change of one layout that avoids it, or makes it cheaper.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "meshwork/ir/plan/explain.h"

namespace meshwork {

// What the collectives that move some values cost in a step.
struct MovingCost {
  double bytes = 0;    // on the wire, per device; a value's part of a bucket counts by its bytes
  double seconds = 0;  // by the topology; 0: unknown
};

struct CheapestChange {
  size_t change = 0;         // in LayoutSearch::changes
  MovingCost before, after;  // of the collective's values; after.bytes == 0: the change avoids it
};

// Per collective of `all` the first of all.search.changes, which are in order of the cost of the step, with which its
// values cost less to move; nothing if there is none. Values of several programs are the same if they are of one line,
// scope and type.
std::vector<std::optional<CheapestChange>> CheapestChanges(const Explanation& all);

}  // namespace meshwork
