// The way back through a graph, of which Gradients (ir/gradients.h) is one use; bodies of loops and branches are
// another.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "meshwork/ir/graph.h"

namespace meshwork {

struct OpRow;

// Turns each term of a gradient into the value that is added to the gradient of `target`.
using AdjustTerm = std::function<Value(const Value& target, const Value& term)>;

// Gradients (ir/gradients.h), but invalid where no gradient reaches wrt[i]: the loss does not depend on it, or depends
// on it only through StopGradient, comparisons and whole numbers. Nothing after a mistake, which is recorded.
std::optional<std::vector<Value>> ReachedGradients(const Value& loss, std::span<const Value> wrt,
                                                   CallSite loc = CallSite::Current(),
                                                   const AdjustTerm& adjust = nullptr);

// The gradients, by wrt, of the sum of all products values[i] * cotangents[i], element by element; invalid
// where the sum does not depend on wrt[j]. Gradients is this function for a cotangent of 1. Errors, recorded:
// a loop without a known number of iterations in between.
std::vector<Value> PullBack(Graph& graph, std::span<const Value> values, std::span<const Value> cotangents,
                            std::span<const Value> wrt, const AdjustTerm& adjust = nullptr);

// Whether the row has a gradient other than ZeroGradient.
bool HasSlope(const OpRow& row);
// Whether a real result of the node may depend on its operands: the row has a gradient (HasSlope), the node
// has regions, or the row does not say.
bool MayHaveSlope(const Graph& graph, const Node& node);

}  // namespace meshwork
