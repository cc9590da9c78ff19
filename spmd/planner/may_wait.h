// Whether a sum may wait past an op, judged by the constants that it meets.
//
//   %e = mul %c, %inf      %c: {_ | sum:x}, %inf: a constant ∞
//
// In real arithmetic the sum may always be made later. In floating-point arithmetic terms may be infinite, or
// vanish, where the whole does not: the terms 2 and -1 times ∞ add up to NaN, but their sum times ∞ is ∞. The
// compiler prevents this for constants that it knows: a sum is made before it is multiplied by a constant
// that is infinite or larger than the dtype's precision (2^24 for f32), or divided by one that may be 0 or is
// as small. It cannot prevent it for values that only a step knows (docs/limitations.md).
#pragma once

#include <span>

#include "meshwork/ir/graph.h"
#include "meshwork/ir/rule.h"
#include "meshwork/layout/layout.h"

namespace meshwork {

// `owed`: what each operand of `node` owes, which `rule` passes on. Takes the time to look at the operands,
// and at the values behind ops that only move elements.
bool MayWait(const Graph& graph, const Node& node, const Rule& rule, std::span<const PartialSet> owed);

// Whether MayWait depends on the magnitude of an operand, and so on the ops that make it. Otherwise it is the same for
// nodes that are alike.
bool AsksForMagnitudes(const Graph& graph, const Node& node);

}  // namespace meshwork
