// The inner loop of elimination. Internal.
#pragma once

#include <span>
#include <vector>

#include "meshwork/spmd/solver/cost_model.h"

namespace meshwork {

// The least, over the states of `variable`, of the sum of `tables`: a table over their other variables. Takes time
// proportional to the combinations of states of all their variables; memory for the result, and a few times that of the
// tables. REQUIRES: all `tables` have the variable.
CostTable MinOut(int variable, std::span<const CostTable* const> tables, std::span<const int> states);

}  // namespace meshwork
