// Moves costs between tables so that the least entries of all tables add up to as much as they can: a lower bound of
// the least sum. Internal.
//
// Sequential message passing: Kolmogorov, "Convergent tree-reweighted message passing for energy minimization", PAMI
// 28, 2006, and for tables of any number of variables "A new look at reweighted message passing", PAMI 37, 2015.
#pragma once

#include <vector>

#include "meshwork/spmd/solver/cost_model.h"

namespace meshwork {

class Reparametrization {
 public:
  // `model` must outlive this: its tables are only read; the costs that move are kept per variable and table. order:
  // the order in which all variables are visited; empty: as they are numbered. REQUIRES: tables have their variables in
  // increasing order, and no state is forbidden whatever the others are (as Reduce leaves a model).
  explicit Reparametrization(const CostModel& model, const std::vector<int>& order = {});

  // Once along the variables and once back. The bound does not fall, up to rounding.
  void Pass();

  // About how many entries a pass looks at.
  double EntriesPerPass() const { return entries_per_pass_; }

  double Bound() const;

  // Per variable and state: a lower bound of the sums in which the variable has that state.
  std::vector<std::vector<double>> BoundPerState() const;

  // A model that has the same sum as the given one for each assignment.
  CostModel Model() const;

 private:
  // One of the tables of a variable, and the variable's place in it.
  struct Place {
    int table;
    size_t position;
  };

  void Visit(int variable, bool forward);
  bool IsVisitedLater(int variable, const CostTable& table, bool forward) const;
  // Per state of the variable at `position`: the least entry, without what is added for that variable.
  std::vector<double> LeastOfOthers(const CostTable& table, const Place& at) const;
  std::vector<double> LeastPerStateOf(const Place& at) const;

  const CostModel& model_;
  std::vector<int> order_, rank_;           // the variables, and per variable its place in that
  std::vector<std::vector<Place>> places_;  // per variable: in tables of several
  // Per table of several variables, and variable of it: what is added to the entries per state.
  std::vector<std::vector<std::vector<double>>> added_;
  std::vector<std::vector<double>> own_;  // per variable and state
  double constant_ = 0;
  double entries_per_pass_ = 0;
};

}  // namespace meshwork
