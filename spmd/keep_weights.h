// KeepWeights lays activations out along weights that must not be gathered.
//
// If the rows of an activation and the columns of a weight want one axis, the result takes it from the larger
// of the two (spmd/propagate.h), and the other is gathered. A weight beyond the budget must not be gathered
// (spmd/planner/replication.h), but an activation may be, because the layouts imply it. So the result is laid out
// along the weight, and the values after it follow.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/mesh/topology.h"
#include "meshwork/spmd/propagate.h"

namespace meshwork {

// `result`: Propagate's result for `pinned`. If, with results pinned along such weights, less is gathered
// that `budget` refuses, or the step costs less, `pinned` gets these pins and `result` follows them. Returns
// the decisions, a line each.
std::vector<std::string> KeepWeights(Graph& pinned, PropagateResult& result, const Topology& topology,
                                     int64_t budget);

}  // namespace meshwork
