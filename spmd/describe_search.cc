#include "meshwork/spmd/describe_search.h"

#include <string_view>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/ops/control/loops.h"
#include "meshwork/spmd/insert_relayouts.h"
#include "meshwork/spmd/planner/replication.h"
#include "meshwork/spmd/planner/solve_layouts.h"
#include "meshwork/spmd/propagate.h"

namespace meshwork {

absl::StatusOr<std::string> DescribeSearch(const Graph& global, const CompileOptions& options) {
  Graph pinned = global;
  bool is_laid_out = false;
  CompileOptions dumping = options;
  dumping.dump = [&](std::string_view pass, const Graph& graph) {
    is_laid_out |= pass == "propagate";
    if (!is_laid_out) pinned = graph;
  };
  MESHWORK_RETURN_IF_ERROR(Compile(global, dumping).status());
  if (HasLoops(pinned)) pinned = OpenLoops(pinned).graph;
  const Graph propagated = Propagate(pinned).graph;
  const Replication replication(pinned, options.replication_budget);
  const InsertedRelayouts now = InsertRelayouts(propagated, options.topology, replication);
  std::string text;
  SolveLayouts(pinned, propagated, now.choices, options.topology, replication,
               {.gathers_bound_weights = GathersBoundWeights(now, replication), .text = &text});
  return text.empty() ? "The program has more tables than the search looks at.\n" : text;
}

}  // namespace meshwork
