// Eliminates variables one by one. The tables that have the variable are replaced by one table over their other
// variables: the least, over the states of the variable, of their sum. Internal.
//
// With max_joint, no table over more than so many combinations is made. The tables of a variable are then minimised in
// groups, each group by itself. This gives a lower bound of the least sum, and a good assignment ("mini-buckets":
// Dechter and Rish, "Mini-buckets: a general scheme for bounded inference", Journal of the ACM 50, 2003).
#pragma once

#include <span>
#include <vector>

#include "meshwork/spmd/solver/cost_model.h"

namespace meshwork {

// The most entries of one elimination, however many a whole search may take: an elimination holds its tables until it
// ends.
constexpr double kMostExact = 2e9;

struct Eliminated {
  double bound = 0;  // no assignment has a smaller sum, up to rounding
  std::vector<int>
      assignment;        // found by choosing the best states from the last variable eliminated to the first
  bool is_exact = true;  // no tables were split: the sum of `assignment` is `bound`
};

// order: each variable that a table has, once. Others get state 0. max_joint: combinations of states, the eliminated
// variable's included.
Eliminated Eliminate(CostModel model, std::span<const int> order, double max_joint = kNever);

// The state of `variable` for which the sum of `tables` is least, the other variables being as in `assignment`; the
// first of equal states. Writes assignment[variable]. REQUIRES: all `tables` have the variable.
int BestState(int variable, std::span<const CostTable* const> tables, std::span<const int> states,
              std::vector<int>& assignment);

// How many combinations Eliminate would look at.
double EntriesToEliminate(const CostModel& model, std::span<const int> order, double max_joint);

}  // namespace meshwork
