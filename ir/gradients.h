// Reverse-mode differentiation, graph to graph: the gradient program is ordinary nodes on global
// shapes, so the partitioner sees forward, backward and optimizer as one program.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/ir/value_list.h"

namespace meshwork {

struct GradView;
struct OpRow;

// d loss / d wrt[i], each of wrt[i]'s type; zeros if the loss does not depend on wrt[i]. `loss` is a float
// scalar. Gradient nodes have the source line of the op that they differentiate; if that op may gather
// (AllowGather of an operand or a result), they may gather, too.
// Errors (recorded in the graph, results invalid): a loss that is not a float scalar, a value of an
// integer or bool dtype or of another graph; an op without a gradient (OpRow::grad) between the loss and wrt,
// unless StopGradient stands between them, too.
std::vector<Value> Gradients(const Value& loss, const ValueList& wrt, CallSite loc = CallSite::Current());

// Turns each term of a gradient into the value that is added to the gradient of `target`.
using AdjustTerm = std::function<Value(const Value& target, const Value& term)>;

// The same, but invalid where no gradient reaches wrt[i]: the loss does not depend on it, or depends on it
// only through StopGradient, comparisons and whole numbers. Nothing after a mistake, which is recorded.
std::optional<std::vector<Value>> ReachedGradients(const Value& loss, std::span<const Value> wrt,
                                                   CallSite loc = CallSite::Current(),
                                                   const AdjustTerm& adjust = nullptr);

// The gradients, by wrt, of the sum of all products values[i] * cotangents[i], element by element; invalid
// where the sum does not depend on wrt[j]. Gradients is this function for a cotangent of 1. Errors, recorded:
// a loop without a known number of iterations in between.
std::vector<Value> PullBack(Graph& graph, std::span<const Value> values, std::span<const Value> cotangents,
                            std::span<const Value> wrt, const AdjustTerm& adjust = nullptr);

// For OpRow::grad. The gradient of a function whose slope is 0 wherever it has one, such as floor and sign:
// no gradients, and the loss does not count as depending on the operands.
std::vector<Value> ZeroGradient(const GradView& view);
// Whether the row has a gradient other than ZeroGradient.
bool HasSlope(const OpRow& row);
// Whether a real result of the node may depend on its operands: the row has a gradient (HasSlope), the node
// has regions, or the row does not say.
bool MayHaveSlope(const Graph& graph, const Node& node);

// For OpRow::grad, for an op that has a kernel of its own but no gradient of its own. `form`, given the
// operands, appends other ops that compute the same results; the gradients are those of these ops.
std::vector<Value> GradientOfForm(
    const GradView& view, const std::function<std::vector<Value>(const std::vector<Value>& operands)>& form);

}  // namespace meshwork
