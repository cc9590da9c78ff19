// Makes a problem smaller without losing its least cost. Internal.
#pragma once

#include <vector>

#include "meshwork/spmd/solver/cost_model.h"

namespace meshwork {

struct Reduced {
  struct Dropped {
    int variable, state,
        instead;  // states of the model before; instead: costs no more, -1 if `state` may not be
  };

  CostModel model;                     // over the states that are left; no table has a variable of one state
  std::vector<std::vector<int>> kept;  // per variable and state: the state in the model before
  std::vector<Dropped> dropped;        // the first first

  // True if a variable has no states left, or a table without variables forbids everything.
  bool IsInfeasible() const;

  // The states in the model before.
  std::vector<int> Original(const std::vector<int>& assignment) const;

  // The inverse. Dropped states are replaced by their `instead`, so the sum is no larger. REQUIRES: !IsInfeasible().
  std::vector<int> Into(std::vector<int> original) const;
};

// Drops states that some table forbids whatever the others are, and states that another one always beats. State b of x
// beats state a if this sum over the tables of x is at most 0: the most that b costs more than a, over all states of
// the others (Goldstein 1994). Of equal states the first is kept. A table whose variables are all in another table is
// added to that one.
// keeps: per variable, whether it keeps all its states; empty: none does.
Reduced Reduce(CostModel model, std::vector<bool> keeps = {});

}  // namespace meshwork
