// Moves costs between tables so that the least entries of all tables add up to as much as they can: a lower bound of the
// least sum. Internal.
//
// Sequential message passing: Kolmogorov, "Convergent tree-reweighted message passing for energy minimization", PAMI 28,
// 2006, and for tables of any number of variables "A new look at reweighted message passing", PAMI 37, 2015.
#pragma once

#include <vector>

#include "meshwork/spmd/search/cost_model.h"

namespace meshwork {

class Reparametrization {
 public:
  // Tables have their variables in increasing order, and no state is forbidden whatever the others are (as Reduce leaves
  // a model).
  explicit Reparametrization(const CostModel& model);

  // Once along the variables and once back. The bound does not fall, up to rounding.
  void Pass();

  // About how many entries a pass looks at.
  double EntriesPerPass() const { return entries_per_pass_; }

  double Bound() const;

  // A bound per variable and state: of the sums where the variable has that state.
  std::vector<std::vector<double>> BoundPerState() const;

  // Of the same sum as the model given, assignment by assignment.
  CostModel Model() const;

 private:
  void Visit(int variable, bool forward);

  CostModel model_;                          // without the tables of one variable or none
  std::vector<std::vector<int>> tables_of_;  // per variable
  std::vector<std::vector<double>> own_;     // per variable and state
  double constant_ = 0;
  double entries_per_pass_ = 0;
};

}  // namespace meshwork
