// The cheapest sequence of relayout steps between two plain layouts, by search. PlanRelayout calls it where
// the greedy order may not be the cheapest.
//
// Dijkstra's algorithm over layouts, that is over (axes of each dim, owed reductions): a step leads from one
// to another and costs its time where a topology is given, then what a device sends, then one collective,
// then one step. What costs no less than the best plan known, or needs more memory than allowed, is not
// followed. From every layout that owes what the target does, an all_to_all_v leads there, and nowhere else.
// Compare the redistribution search of Rink et al., "Memory-efficient array redistribution through portable
// collective communication", arXiv 2112.01075.
#pragma once

#include <optional>
#include <vector>

#include "meshwork/layout/layout.h"
#include "meshwork/layout/relayout.h"
#include "meshwork/layout/relayout_cost.h"

namespace meshwork {

struct RelayoutSearch {
  // Empty if nothing cheaper than the given cost is within the memory.
  std::optional<std::vector<RelayoutStep>> steps;
  // Nothing cheaper exists than `steps`, or than the given cost if there are none; otherwise the search was
  // cut short: `steps` may be beaten, but no plan costs less than `lower_bound`.
  bool is_complete = true;
  RelayoutCost lower_bound = {};
};

// A plan cheaper than `below`, in which no step holds more than `peak_elements`. REQUIRES: plain layouts of
// one mesh and rank that fit `shape`; `to` owes nothing that `from` does not.
RelayoutSearch SearchRelayout(const Layout& from, const Layout& to, const Shape& shape,
                              const RelayoutCosts& costs, const RelayoutCost& below, int64_t peak_elements);

}  // namespace meshwork
