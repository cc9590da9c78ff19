// Search with bounds, for problems that are too wide for exact elimination. Each round finds an assignment by local
// search, and a lower bound by message passing and mini-buckets. It drops the states that, by their bounds, cannot be
// in a better assignment, and eliminates variables at little cost (shrink.h), so that the next round sees a smaller
// problem. If what is left can be eliminated, the result is exact. If rounds drop few states and the bound is close,
// one variable is fixed to each of its states in turn, and further rounds bound each of these branches ("branch and
// bound": Land and Doig, Econometrica 28, 1960). Internal.
#pragma once

#include <vector>

#include "meshwork/spmd/solver/cost_model.h"

namespace meshwork {

struct BoundedResult {
  std::vector<int> assignment;
  double bound = 0;    // no assignment has a smaller sum, up to rounding
  double entries = 0;  // that were looked at
};

// model: as Reduce leaves it, of costs >= 0. start: empty, or an assignment; the result has no larger sum.
// order: see MinSumOptions.
BoundedResult SearchBounded(const CostModel& model, const std::vector<int>& start, double max_entries,
                            const std::vector<int>& order);

}  // namespace meshwork
