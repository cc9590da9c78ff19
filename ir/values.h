// Small questions about values of a graph.
#pragma once

#include <span>
#include <vector>

#include "meshwork/ir/graph.h"

namespace meshwork {

// The values with these ids.
std::vector<Value> ValuesOf(Graph& graph, std::span<const ValueId> ids);

// From now on the compiler may gather x whole on every device. Does nothing if x is invalid or is marked
// already.
void MayBeGathered(const Value& x);

}  // namespace meshwork
