// Eliminates the variables whose elimination is cheap, so that a search sees few variables, and bounds see far. Internal.
#pragma once

#include <vector>

#include "meshwork/spmd/solver/cost_model.h"

namespace meshwork {

struct Condensed {
  struct Step {
    int variable;
    std::vector<CostTable> tables;  // that had it
  };

  CostModel model;          // the variables that are eliminated have one state, and no table
  std::vector<int> states;  // before, per variable
  std::vector<Step> steps;  // the first eliminated first
  double entries = 0;       // combinations that were looked at

  // The best states of what is eliminated, with the others as `assignment` has them.
  std::vector<int> Original(std::vector<int> assignment) const;

  std::vector<int> Into(std::vector<int> original) const;
};

// Eliminates each variable that has at most max_joint combinations with its neighbours, and leaves a table of no more
// entries than its tables had, or max_made. The fewest combinations first. What is equal to `model`: the least sum over
// what is eliminated, for all states of the others.
Condensed Condense(CostModel model, double max_joint, double max_made);

}  // namespace meshwork
