// What a sum of cost tables comes to, at least, if a few of its variables change to other states than they have as usual, and
// what is near them changes with them: min-marginals of those variables. Internal to the planner.
//
//   usual: x is 0 or 1, y is 0, all others have any state            {x, y} with {2} and {1}: how much more it is then
//
// For the changes of the same variables there is one more variable that says which it is. It is eliminated last
// (elimination.h): what is left is the least sum for each of its states.
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
  // usual: of each variable of `problem`. A variable that has other states, too, is held.
  NearSums(const MinSum& problem, StateLists usual);

  // changes: each gives every one of `variables`, which are held, a list of states, of which no two lists of a variable have
  // one in common, nor any with its usual ones. Per change: how much more the least sum is than as usual; infinite where it
  // may not be. Where that would look at more than max_entries combinations, fewer variables change; infinite if even a few
  // are too many.
  // About so many variables change with them as `near` says, the nearest first, by ways on which no variable is held; all
  // others keep the first of their usual states, or one that is no worse whatever the others are. So the least sum is exact
  // for small problems, and too large, if anything, for large ones.
  std::vector<double> MoreWith(std::span<const int> variables, const std::vector<StateLists>& changes,
                               size_t near, double max_entries) const;

 private:
  // Those, and what is near to them, the nearest first.
  std::vector<int> NearTo(std::span<const int> variables, size_t near) const;

  std::vector<bool> is_held_;  // per variable
  Reduced reduced_;            // the problem without states that others always beat; what is held keeps all
  StateLists usual_;           // in states of reduced_
  std::vector<int> far_;       // per variable: the state that it has where it is far from a change
  TablesOfEach tables_of_;     // per variable
};

}  // namespace meshwork
