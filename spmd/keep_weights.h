// KeepWeights lays activations out along weights that must not be gathered.
//
// Where the rows of an activation and the columns of a weight want one axis, the result takes that of the
// larger (spmd/propagate.h), and the other is gathered. A weight beyond the budget is not
// (spmd/replication.h), an activation is: the layouts imply it. So the result lies along the weight, and what
// follows it as well.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/mesh/topology.h"
#include "meshwork/spmd/propagate.h"

namespace meshwork {

// `result`: what Propagate makes of `pinned`. If less is gathered that `budget` refuses, or the step costs
// less, with results pinned along such weights, `pinned` gets these pins and `result` follows them; returns
// what was decided, a line each.
std::vector<std::string> KeepWeights(Graph& pinned, PropagateResult& result, const Topology& topology,
                                     int64_t budget);

}  // namespace meshwork
