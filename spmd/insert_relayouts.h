// InsertRelayouts makes every op's operands meet its rule.
//
// It puts `relayout` nodes where a value lies otherwise than an op reads it or a user wants it (choose_cuts.h
// says how each op runs). A sharded letter that is reduced leaves the result *partial*; a partial value
// passes through linear ops as long as every reader can take it and it does not grow (unless it meets a sum
// that is owed anyway), and is summed where something needs the whole. So a sum of sums is one sum, and a
// gradient is summed once.
#pragma once

#include "mesh/topology.h"
#include "ops/graph.h"

namespace meshwork {

// `graph`: a global program whose values all have whole layouts (see Propagate). In the result a
// value's layout is what its op yields, partial sets included, and every op's operands fit its rule.
Graph InsertRelayouts(const Graph& graph, const Topology& topology = {});

}  // namespace meshwork
