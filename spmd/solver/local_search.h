// Makes an assignment better by exact steps. Internal.
//
// A step fixes a few variables, so that the others can be eliminated at little cost, and gives the others their best
// states. Each step fixes other variables. ("w-cutset": Dechter, "Bucket elimination", 1999, section 10; the search is
// a large neighbourhood search, Shaw 1998.)
#pragma once

#include <vector>

#include "meshwork/spmd/solver/cost_model.h"

namespace meshwork {

// The sum of `assignment` afterwards, which is no more than before. Stops at a sum of at most `goal`, after about
// max_entries entries, or when no step helps. If the sum is infinite, it first looks for an assignment of finite sum.
// Adds the entries that it took to `entries`.
double Improve(const CostModel& model, double goal, double max_entries, std::vector<int>& assignment,
               double& entries);

}  // namespace meshwork
