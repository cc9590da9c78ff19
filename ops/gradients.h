// Reverse-mode differentiation, graph to graph: the gradient program is ordinary nodes on global
// shapes, so the partitioner sees forward, backward and optimizer as one program.
#pragma once

#include <functional>
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

// The gradients of the sum of all products of elements of values[i] and cotangents[i], by wrt: invalid where
// it depends on none. What Gradients is for a cotangent of 1. Errors, recorded: a loop without a known number
// of iterations in between.
// `adjust`, if given, makes of each term what is added to the gradient of `target`.
using AdjustTerm = std::function<Value(const Value& target, const Value& term)>;
std::vector<Value> PullBack(Graph& graph, std::span<const Value> values, std::span<const Value> cotangents,
                            std::span<const Value> wrt, const AdjustTerm& adjust = nullptr);

}  // namespace meshwork
