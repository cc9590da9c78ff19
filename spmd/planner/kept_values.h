// Which values are kept in blocks and gathered for each use (spmd/rewrite/gather_on_use.h). Pure, thread-safe.
#pragma once

#include <vector>

#include "meshwork/ir/graph.h"

namespace meshwork {

// Per value, whether it is kept in blocks: it is a variable that is gathered on use, or has as many elements
// and is computed from such values and scalars alone. For global and local programs.
std::vector<bool> KeptValues(const Graph& graph);

// Whether the node moves a kept value: a use, a step of a use, or a relayout that the user asks for.
bool MovesKept(const Node& node, const std::vector<bool>& kept);

// Whether the node is a use: a relayout of a kept value that is open in all dims.
bool IsUse(const Node& node, const std::vector<bool>& kept);

// Whether the program has variables that are gathered on use; if not, the passes of spmd/rewrite/gather_on_use.h do
// nothing.
bool GathersOnUse(const Graph& graph);

// The parts of KeptValues, for code that goes through a program node by node, as KeptValues does.

bool IsKeptVariable(const Graph& graph, const Argument& argument);

// Per value: whether it is a carry of a loop, which is a variable in the first iteration alone.
std::vector<bool> CarriesOf(const Graph& graph);

// Whether the node computes from kept values and scalars alone.
bool ReadsKeptAlone(const Graph& graph, const Node& node, const std::vector<bool>& kept);

// Marks the results of the node in `kept`, if they are kept, too.
void MarkKept(const Graph& graph, const Node& node, const std::vector<bool>& carries,
              std::vector<bool>& kept);

}  // namespace meshwork
