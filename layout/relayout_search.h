// The cheapest sequence of relayout steps between two plain layouts, by search. PlanRelayout calls it where
// the greedy order may not be the cheapest.
//
// Dijkstra's algorithm over layouts, that is over (axes of each dim, owed reductions): a step leads from one
// to another and costs its time where a topology is given, then what a device sends, then one collective,
// then one step. Steps that need more memory than allowed are not followed. An all_to_all_v leads only to the target,
// from every layout that owes the same reductions.
//
// Each thread remembers the steps of a tensor, and the ways from a layout as far as they were looked for. So a planner
// that asks for all pairs of some layouts pays for one search per layout, not for one per pair.
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
  // Empty if no plan within the memory is cheaper than the given cost.
  std::optional<std::vector<RelayoutStep>> steps;
  // True: no plan is cheaper than `steps`, or than the given cost if there are no steps. False: the search
  // was cut short; there may be a plan cheaper than `steps`, but none that costs less than `lower_bound`.
  bool is_complete = true;
  RelayoutCost lower_bound = {};
  int64_t looked_at = 0;  // steps, whether they were remembered or not
};

// A plan cheaper than `below`, in which no step holds more than `peak_elements`. REQUIRES: plain layouts of
// one mesh and rank that fit `shape`; `to` owes nothing that `from` does not.
RelayoutSearch SearchRelayout(const Layout& from, const Layout& to, const Shape& shape,
                              const RelayoutCosts& costs, const RelayoutCost& below, int64_t peak_elements);

}  // namespace meshwork
