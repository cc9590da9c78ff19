// The cheapest sequence of relayout steps between two plain layouts, by search. PlanRelayout calls it where
// the greedy order may not be the cheapest.
//
// Dijkstra's algorithm over layouts, that is over (axes of each dim, owed reductions): a step leads from one
// to another and costs what a device sends, then one collective, then one step. What costs no less than the
// best plan known, or needs more memory than allowed, is not followed. Compare the redistribution search of
// Rink et al., "Memory-efficient array redistribution through portable collective communication", arXiv
// 2112.01075.
#pragma once

#include <optional>
#include <vector>

#include "layout/layout.h"
#include "layout/relayout.h"

namespace meshwork {

// What a plan costs; compared in this order.
struct RelayoutCost {
  int64_t wire_elements = 0;
  int collectives = 0;
  int steps = 0;

  auto operator<=>(const RelayoutCost&) const = default;  // NOLINT(modernize-use-nullptr): it misreads <=>
};
RelayoutCost CostOf(const std::vector<RelayoutStep>& steps);

// Elements that a device holds while a step runs, of operand and result: the most over the steps.
int64_t PeakOf(const Layout& from, const std::vector<RelayoutStep>& steps, const Shape& shape);

// What a device sends in one step from a layout whose block has `before` elements to one with `after`, in
// groups of n.
int64_t WireElementsOf(RelayoutKind kind, int64_t before, int64_t after, int64_t n);

struct RelayoutSearch {
  // Empty if nothing cheaper than the given cost is within the memory.
  std::optional<std::vector<RelayoutStep>> steps;
  // Nothing cheaper exists than `steps`, or than the given cost if there are none; otherwise the search was
  // cut short, and no plan sends less than `lower_bound`.
  bool is_complete = true;
  int64_t lower_bound = 0;
};

// A plan cheaper than `below`, in which no step holds more than `peak_elements`. REQUIRES: plain layouts of
// one mesh and rank that fit `shape`; `to` owes nothing that `from` does not.
RelayoutSearch SearchRelayout(const Layout& from, const Layout& to, const Shape& shape,
                              const RelayoutCost& below, int64_t peak_elements);

}  // namespace meshwork
