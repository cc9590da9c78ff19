// Which values a program is for, and the program without the others. Of global and local programs, opened ones (loops.h) too.
//
// Pure functions; thread-safe.
#pragma once

#include <vector>

#include "meshwork/ir/graph.h"

namespace meshwork {

// Per value: whether an update or an output depends on it.
std::vector<bool> LiveValues(const Graph& graph);

// Drops nodes that no update and no output depends on.
Graph DropDeadCode(Graph graph);

}  // namespace meshwork
