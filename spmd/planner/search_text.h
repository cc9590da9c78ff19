// What a search for layouts weighs, as text: the layouts that each value could have, the ways to run each op, the
// tables of costs between them, and what was chosen. For small programs; docs/partitioner.md reads one.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/spmd/planner/fold_repeats.h"
#include "meshwork/spmd/planner/held_values.h"
#include "meshwork/spmd/planner/layout_space.h"
#include "meshwork/spmd/solver/min_sum.h"

namespace meshwork {

// What the costs of a table are for: "to read", %x.
struct TablePurpose {
  std::string_view what;
  ValueId value = kNoValue;  // if it is about one
};

struct WeighedSearch {
  const Graph& pinned;
  const Fold& fold;
  const FoldedNodes& nodes;
  LayoutSpace& space;
  const HeldValues& held;
  const MinSum& problem;
  // The variable per value and per node; -1: there is nothing to choose.
  std::vector<int> of_value, of_node;
  std::span<const TablePurpose> purposes;  // per table of the problem
};

// A state is marked with "*" if Propagate chose it, and with ">" if it is in `found`, a state per variable. Costs are
// in microseconds; "never": the combination may not be, or gathers what must not be gathered.
std::string TextOf(WeighedSearch& search, std::span<const int> found, double refused_seconds);

}  // namespace meshwork
