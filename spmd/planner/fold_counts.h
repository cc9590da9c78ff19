// Counts for a folded program (fold_repeats.h): how many nodes and values each of its nodes and values stands for, and
// how often values are read and updated. Internal to the planner.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/spmd/planner/fold_repeats.h"

namespace meshwork {

struct FoldCounts {
  std::vector<double> runs;    // per class of nodes: how often its ops run
  std::vector<double> values;  // per value: how many it stands for; 0 for those that another one stands for
  // Per class and operand: the values that are read, and how often.
  std::vector<std::vector<std::map<ValueId, double>>> reads;
  std::map<std::pair<ValueId, ValueId>, double> updates;  // per value and variable: how many
};

// counts_all: counts all nodes, values, reads and updates of the program, each for those that stand for it, so that
// costs are those of the whole program. Otherwise counts only those that stand for themselves, as if the folded program
// were all.
FoldCounts CountsOf(const Graph& graph, const Fold& fold, bool counts_all);

}  // namespace meshwork
