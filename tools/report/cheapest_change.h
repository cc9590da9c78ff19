// For each collective, the cheapest change of one layout that avoids it or makes it cheaper.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "meshwork/ir/plan/explain.h"

namespace meshwork {

// The cost, in a step, of the collectives that move some values.
struct MovingCost {
  double bytes = 0;    // on the wire, per device; a value's part of a bucket counts by its bytes
  double seconds = 0;  // by the topology; 0: unknown
};

struct CheapestChange {
  size_t change = 0;         // in LayoutSearch::changes
  MovingCost before, after;  // of the collective's values; after.bytes == 0: the change avoids it
};

// Per collective of `all`: the first of all.search.changes, which are in order of the cost of the step, that makes
// its values cheaper to move; nothing if there is none. Values of different programs are taken for the same if their
// lines, scopes and types are equal.
std::vector<std::optional<CheapestChange>> CheapestChanges(const Explanation& all);

}  // namespace meshwork
