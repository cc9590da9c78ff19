// The inner loop of elimination. Internal.
#pragma once

#include <span>
#include <vector>

#include "meshwork/spmd/solver/cost_model.h"

namespace meshwork {

// The least, over the states of `variable`, of the sum of `tables`, which all have it: a table over their other variables.
// Takes time of the combinations of states of all their variables; memory of the result, and of the tables a few times.
CostTable MinOut(int variable, std::span<const CostTable* const> tables, std::span<const int> states);

}  // namespace meshwork
