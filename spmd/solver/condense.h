// Eliminates the variables whose elimination is cheap, so that a search sees few variables, and bounds see far.
// Internal.
#pragma once

#include <vector>

#include "meshwork/spmd/solver/cost_model.h"

namespace meshwork {

struct Condensed {
  struct Step {
    int variable;
    std::vector<CostTable> tables;  // those that had the variable
  };

  CostModel model;          // the variables that are eliminated have one state, and no table
  std::vector<int> states;  // before, per variable
  std::vector<Step> steps;  // the first eliminated first
  double entries = 0;       // combinations that were looked at

  // `assignment` with the best states for the eliminated variables, given the states of the others.
  std::vector<int> Original(std::vector<int> assignment) const;

  std::vector<int> Into(std::vector<int> original) const;
};

// Eliminates each variable that has at most max_joint combinations with its neighbours and leaves a table of at most
// max_made entries, or of no more entries than its tables had. Variables with the fewest combinations come first.
// Law: for all states of the other variables, the sum of the result is the least sum of `model` over the states of the
// eliminated variables.
Condensed Condense(CostModel model, double max_joint, double max_made);

}  // namespace meshwork
