// In which order to eliminate variables. Internal.
#pragma once

#include <span>
#include <vector>

#include "meshwork/spmd/solver/cost_model.h"

namespace meshwork {

struct EliminationOrder {
  std::vector<int> order;  // variables that have neighbours or tables, and are not fixed
  std::vector<int> fixed;  // with max_joint: those without which no elimination looks at more combinations
  double entries = 0;      // combinations of states to look at
};

// Which variable a greedy order eliminates next: the one whose elimination looks at the fewest combinations, or the one
// that brings together the fewest variables that were apart.
enum class NextVariable { kFewestCombinations, kFewestFills };

// Ends early, with an order that is not complete, where `entries` comes above max_entries. Near-linear in the number of
// variables where few are neighbours at a time.
EliminationOrder OrderBy(NextVariable next, const CostModel& model, double max_entries);

// The better one of both; the first that has at most `few` entries.
EliminationOrder FindOrder(const CostModel& model, double max_entries, double few = 0);

// An order of all, for elimination in groups: as if a variable with too many combinations brought nobody together.
std::vector<int> OrderForGroups(const CostModel& model, double max_joint);

// An order without some variables: where the next one has too many combinations, one of those in its way is fixed, of
// those that were fixed least often (times_fixed, per variable) the one that saves most. `seed` varies the choice.
EliminationOrder OrderWithFixed(const CostModel& model, double max_joint, std::span<const int> times_fixed,
                                int seed);

}  // namespace meshwork
