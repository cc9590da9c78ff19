// For problems that cannot be eliminated exactly: in rounds, an assignment by local search and a bound by message passing and
// mini-buckets. States that the two show to be too dear are dropped, and what can be eliminated at little cost is
// (shrink.h), so that each round sees a smaller problem. Where so little is left that it can be eliminated, the result is
// exact. Where rounds drop few states, and the bound is close, a variable is fixed to each of its states, and each of these
// branches is bounded by further rounds ("branch and bound": Land and Doig, Econometrica 28, 1960). Internal.
#pragma once

#include <vector>

#include "meshwork/spmd/solver/cost_model.h"

namespace meshwork {

struct BoundedResult {
  std::vector<int> assignment;
  double bound = 0;  // no assignment has a smaller sum, up to rounding
};

// model: as Reduce leaves it, of costs >= 0. start: empty, or an assignment; the result has no larger sum.
// order: see MinSumOptions.
BoundedResult SearchBounded(const CostModel& model, const std::vector<int>& start, double max_entries,
                            const std::vector<int>& order);

}  // namespace meshwork
