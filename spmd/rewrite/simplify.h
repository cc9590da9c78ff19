// Clean-up passes; each takes a global or a local program and returns an equal, smaller one.
#pragma once

#include <vector>

#include "meshwork/ir/graph.h"

namespace meshwork {

// Replaces dimension_size by its constant, and notes (IsNote) other than relayout by their first operand, or by a
// relayout if the result is pinned. `to`, unless null, gets per value of `graph` its value in the result.
Graph FoldSizes(Graph graph, std::vector<ValueId>* to = nullptr);

// A global program as it is outside of training: each when_training, also in bodies, is replaced by its second operand.
Graph WithoutTraining(const Graph& graph);

// Common subexpressions: nodes with the same op, operands, attributes and result layouts become one.
// The uses of a variable that is gathered on use (gather_on_use.h) stay separate.
Graph ShareSubexpressions(const Graph& graph);

}  // namespace meshwork
