// How often there is what stands for others in a folded program (fold_repeats.h), and what reads and updates what.
// Internal to the planner.
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
  // Per class and operand: how often which value is read.
  std::vector<std::vector<std::map<ValueId, double>>> reads;
  std::map<std::pair<ValueId, ValueId>, double> updates;  // of a value and a variable: how many
};

// counts_all: everything is counted, so that a cost is that of the whole program, and what follows what is left out reads
// and is read as often as the program says. Otherwise the folded program is counted as if it were all.
FoldCounts CountsOf(const Graph& graph, const Fold& fold, bool counts_all);

}  // namespace meshwork
