// Reverse-mode differentiation, graph to graph: the gradient program is ordinary nodes on global
// shapes, so the partitioner sees forward, backward and optimizer as one program.
#pragma once

#include <span>
#include <vector>

#include "ops/graph.h"

namespace meshwork {

// d loss / d wrt[i], each of wrt[i]'s type; zeros where the loss does not depend on it. `loss` is a
// float scalar. Gradient nodes stand at the source line of the op they differentiate; where that may gather
// (AllowGather of an operand or a result), so may they.
// Errors (recorded in the graph, results invalid): a loss that is not a float scalar, a value of an
// integer or bool dtype or of another graph.
std::vector<Value> Gradients(const Value& loss, std::span<const Value> wrt,
                             CallSite loc = CallSite::Current());

}  // namespace meshwork
