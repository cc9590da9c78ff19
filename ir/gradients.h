// Reverse-mode differentiation, graph to graph: the gradient program is ordinary nodes on global
// shapes, so the partitioner sees forward, backward and optimizer as one program.
#pragma once

#include <functional>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/ir/value_list.h"

namespace meshwork {

struct GradView;

// d loss / d wrt[i], each of wrt[i]'s type; zeros if the loss does not depend on wrt[i]. `loss` is a float
// scalar. Gradient nodes have the source line of the op that they differentiate; if that op may gather
// (AllowGather of an operand or a result), they may gather, too.
// Errors (recorded in the graph, results invalid): a loss that is not a float scalar, a value of an
// integer or bool dtype or of another graph; an op without a gradient (OpRow::grad) between the loss and wrt,
// unless StopGradient stands between them, too.
std::vector<Value> Gradients(const Value& loss, const ValueList& wrt, CallSite loc = CallSite::Current());

// For OpRow::grad. The gradient of a function whose slope is 0 wherever it has one, such as floor and sign:
// no gradients, and the loss does not count as depending on the operands.
std::vector<Value> ZeroGradient(const GradView& view);

// For OpRow::grad, for an op that has a kernel of its own but no gradient of its own. `form`, given the
// operands, appends other ops that compute the same results; the gradients are those of these ops.
std::vector<Value> GradientOfForm(
    const GradView& view, const std::function<std::vector<Value>(const std::vector<Value>& operands)>& form);

}  // namespace meshwork
