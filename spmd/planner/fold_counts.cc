#include "meshwork/spmd/planner/fold_counts.h"

#include <cstdint>

#include "meshwork/ops/control/loops.h"

namespace meshwork {

FoldCounts CountsOf(const Graph& graph, const Fold& fold, bool counts_all) {
  FoldCounts counts;
  counts.runs.assign(fold.first.size(), 0);
  counts.reads.resize(fold.first.size());
  const std::vector<int64_t> runs = RunsOf(graph);
  for (size_t n = 0; n < fold.class_of.size(); ++n) {
    const int of = fold.class_of[n];
    const bool stands_for_itself = static_cast<size_t>(fold.first[of]) == n;
    if (!counts_all && !stands_for_itself) continue;
    const auto times = static_cast<double>(runs[n]);
    const Node& node = graph.nodes()[n];
    counts.runs[of] += times;
    counts.reads[of].resize(node.operands.size());
    for (size_t i = 0; i < node.operands.size(); ++i)
      counts.reads[of][i][fold.value_of[node.operands[i]]] += times;
  }
  counts.values.assign(fold.value_of.size(), 0);
  for (ValueId id = 0; id < static_cast<ValueId>(fold.value_of.size()); ++id)
    if (counts_all || fold.value_of[id] == id) ++counts.values[fold.value_of[id]];
  for (const VariableUpdate& update : graph.updates()) {
    const ValueId value = fold.value_of[update.value];
    if (counts_all || value == update.value)
      ++counts.updates[{value, fold.value_of[graph.arguments()[update.argument].value]}];
  }
  return counts;
}

}  // namespace meshwork
