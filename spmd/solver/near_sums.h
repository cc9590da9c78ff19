// NearSums says how much the least sum of cost tables grows if a few variables leave their usual states, and variables
// near them change with them: min-marginals of the first ones. Internal to the planner.
//
//   usual: x is 0 or 1, y is 0, all others have any state            {x, y} with {2} and {1}: how much more it is then
//
// One more variable says which of the changes of the same variables is made. All others are eliminated (elimination.h),
// which leaves the least sum for each change.
#pragma once

#include <span>
#include <vector>

#include "meshwork/spmd/solver/cost_model.h"
#include "meshwork/spmd/solver/min_sum.h"
#include "meshwork/spmd/solver/reduce.h"

namespace meshwork {

using StateLists = std::vector<std::vector<int>>;  // per variable: the states that it may have

class NearSums {
 public:
  // usual: the usual states of each variable of `problem`. A variable that has other states, too, is *held*: it leaves
  // its usual states only in a change of it.
  NearSums(const MinSum& problem, StateLists usual);

  // changes: each gives a list of states to every one of `variables`. Returns per change how much more the least sum is
  // with it than as usual; infinite if the change is forbidden. If that would look at more than max_entries
  // combinations, fewer variables change; infinite if even a few are too many. About `near` variables change with them:
  // the nearest ones, on paths on which no variable is held. Each other variable keeps the first of its usual states,
  // or one that is no worse whatever the others are. So the least sum is exact for small problems, and for large ones
  // it may be too large, but never too small.
  //
  // REQUIRES: `variables` are held; the lists of a variable have no state in common with each other or with its usual
  // states.
  std::vector<double> MoreWith(std::span<const int> variables, const std::vector<StateLists>& changes,
                               size_t near, double max_entries) const;

 private:
  // `variables`, and about `near` variables near them, the nearest first.
  std::vector<int> NearTo(std::span<const int> variables, size_t near) const;

  std::vector<bool> is_held_;  // per variable
  Reduced reduced_;            // the problem without states that others always beat; held variables keep all
  StateLists usual_;           // in states of reduced_
  std::vector<int> far_;       // per variable: the state that it has where it is far from a change
  TablesOfEach tables_of_;     // per variable
};

}  // namespace meshwork
