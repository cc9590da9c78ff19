// Programs that a session makes of the user's. Only this room uses them.
//
// Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "meshwork/ir/graph.h"
#include "meshwork/mesh/mesh.h"

namespace meshwork {

// The program that sets every variable to its start; those without initializer to zero.
Graph InitializerGraph(const Graph& graph, int64_t seed);

// The program that gives a variable whole.
Graph GatherGraph(const Graph& graph, const std::string& name);

// `graph` with a relayout before each output whose blocks lie in several domains in `local`, which was made of
// `graph`: along `across`, they are gathered.
Graph WithGatheredOutputs(Graph graph, const Graph& local, AxisSet across,
                          const std::set<std::string>& distributed);

// `graph` without its updates.
Graph WithoutUpdates(const Graph& graph);

}  // namespace meshwork
