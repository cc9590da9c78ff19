// Reverse-mode differentiation, graph to graph: the gradient program is ordinary nodes on global
// shapes, so the partitioner sees forward, backward and optimizer as one program.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "meshwork/ir/graph.h"

namespace meshwork {

struct GradView;
struct OpRow;

// d loss / d wrt[i], each of wrt[i]'s type; zeros where the loss does not depend on it. `loss` is a
// float scalar. Gradient nodes stand at the source line of the op they differentiate; where that may gather
// (AllowGather of an operand or a result), so may they.
// Errors (recorded in the graph, results invalid): a loss that is not a float scalar, a value of an
// integer or bool dtype or of another graph; an op without a gradient (OpRow::grad) between the loss and wrt,
// unless StopGradient stands between them, too.
std::vector<Value> Gradients(const Value& loss, std::span<const Value> wrt,
                             CallSite loc = CallSite::Current());

// The same, invalid where no gradient reaches wrt[i]: the loss does not depend on it, or through
// StopGradient, comparisons and whole numbers alone. Nothing after a mistake, which is recorded.
std::optional<std::vector<Value>> ReachedGradients(const Value& loss, std::span<const Value> wrt,
                                                   CallSite loc = CallSite::Current());

// The gradients of the sum of all products of elements of values[i] and cotangents[i], by wrt: invalid where
// it depends on none. What Gradients is for a cotangent of 1. Errors, recorded: a loop without a known number
// of iterations in between.
// `adjust`, if given, makes of each term what is added to the gradient of `target`.
using AdjustTerm = std::function<Value(const Value& target, const Value& term)>;
std::vector<Value> PullBack(Graph& graph, std::span<const Value> values, std::span<const Value> cotangents,
                            std::span<const Value> wrt, const AdjustTerm& adjust = nullptr);

// For OpRow::grad. Of a function that is flat wherever it has a slope, as floor and sign: no gradients, and
// the loss does not depend on what it is given.
std::vector<Value> ZeroGradient(const GradView& view);
// Whether the row has a gradient other than that.
bool HasSlope(const OpRow& row);
// Whether a real result of the node depends on its operands, as far as its row says: it has a gradient, its
// regions may have, or there is no word on it.
bool MayHaveSlope(const Graph& graph, const Node& node);

// For OpRow::grad. The gradients of a node by those of the same results in terms of other ops, which `form`
// appends, given the operands: for an op that has a kernel of its own and need not have a gradient of its
// own.
std::vector<Value> GradientOfForm(
    const GradView& view, const std::function<std::vector<Value>(const std::vector<Value>& operands)>& form);

}  // namespace meshwork
