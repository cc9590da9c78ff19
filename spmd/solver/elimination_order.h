// Orders in which to eliminate variables. Internal.
#pragma once

#include <span>
#include <vector>

#include "meshwork/spmd/solver/cost_model.h"

namespace meshwork {

struct EliminationOrder {
  std::vector<int> order;  // variables that have neighbours or tables, and are not fixed
  std::vector<int> fixed;  // with max_joint: once these are fixed, no elimination looks at more combinations
  double entries = 0;      // combinations of states to look at
};

// The variable that a greedy order eliminates next: the one whose elimination looks at the fewest combinations, or the
// one that makes the fewest new pairs of neighbours, counted by their combinations.
enum class NextVariable { kFewestCombinations, kFewestFills };

// If `entries` exceeds max_entries, ends early with an incomplete order. Takes time near-linear in the number of
// variables if they have few neighbours at a time.
EliminationOrder OrderBy(NextVariable next, const CostModel& model, double max_entries);

// The better order of both; kFewestFills alone if that has at most `few` entries.
EliminationOrder FindOrder(const CostModel& model, double max_entries, double few = 0);

// An order of all variables, for elimination in groups. It assumes that the elimination of a variable with more than
// max_joint combinations makes no new neighbours.
std::vector<int> OrderForGroups(const CostModel& model, double max_joint);

// An order of some variables; the others are fixed. If the next variable has more than max_joint combinations, it or
// one of its neighbours is fixed: the one that was fixed least often (times_fixed, per variable), of equals the one
// with the most combinations. `seed` varies the choice.
EliminationOrder OrderWithFixed(const CostModel& model, double max_joint, std::span<const int> times_fixed,
                                int seed);

}  // namespace meshwork
