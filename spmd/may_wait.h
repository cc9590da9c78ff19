// Whether a sum may wait past an op, as far as the constants that it meets tell.
//
//   %e = mul %c, %inf      %c: {_ | sum:x}, %inf: a constant ∞
//
// In real arithmetic the sum may always be made later. In floating-point numbers parts may be infinite, or
// vanish, where the whole does not: parts 2 and -1 times ∞ add up to NaN, their sum times ∞ is ∞. What is
// known when a program is compiled is kept from that: a sum is paid before it is multiplied by a constant
// that is infinite or larger than the dtype's precision (2^24 of f32), or divided by one that may be 0 or is
// as small. What only a step knows is not (docs/limitations.md).
#pragma once

#include <span>

#include "meshwork/ir/graph.h"
#include "meshwork/ir/rule.h"
#include "meshwork/layout/layout.h"

namespace meshwork {

// Whether the op moves elements without looking at them, so that every reduction may wait. If it reduces a
// letter nevertheless, as a gather from a sharded dim does, it picks: one device has the element, the others
// what adds nothing to it, and the sum is exact in any dtype.
bool OnlyMoves(const Rule& rule);

// `owed`: what each operand of `node` owes, which `rule` passes on. Time: that of looking at the operands,
// and behind what only moves their elements.
bool MayWait(const Graph& graph, const Node& node, const Rule& rule, std::span<const PartialSet> owed);

}  // namespace meshwork
