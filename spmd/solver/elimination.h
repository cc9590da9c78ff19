// Eliminates variables one by one: the tables that have a variable are replaced by the least of their sum over its states,
// a table over the other variables. Internal.
//
// With max_joint, tables over more than so many combinations are not made: the tables of a variable are then minimised in
// groups, each by itself, which gives a lower bound of the least sum, and a good assignment ("mini-buckets": Dechter and
// Rish, "Mini-buckets: a general scheme for bounded inference", Journal of the ACM 50, 2003).
#pragma once

#include <span>
#include <vector>

#include "meshwork/spmd/solver/cost_model.h"

namespace meshwork {

// Entries that one elimination may take, whatever a search may take in all: it holds its tables until it ends.
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

// The state of `variable` with which the sum of `tables`, which all have it, is least, the others as `assignment` has them;
// the first one of equals. Writes assignment[variable].
int BestState(int variable, std::span<const CostTable* const> tables, std::span<const int> states,
              std::vector<int>& assignment);

// How many combinations Eliminate would look at.
double EntriesToEliminate(const CostModel& model, std::span<const int> order, double max_joint);

}  // namespace meshwork
