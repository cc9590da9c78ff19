// The body of a manual region as devices run it.
//
//   %0 = matmul %a, %b : f32[8,6]                      %0 = matmul %a, %b : f32[8,6] {_,_ | sum:x}
//   %1 = device_shift %0 axes=(x) by=1 count=4   ->    %1 = reshape %0 : f32[8,6] of f32[32,6] {x,_}
//                                                      %2 = exchange %1, %1 …
//                                                      %3 = reshape %2 : f32[8,6] {_,_ | sum:x}
//
// In the body, each device has its own tensor for a value. In a local program such a value owes a sum over
// all axes, because no other device has the same value; bools owe an `or`. Before a collective, a reshape
// declares the value to be the block, or the term, that the collective expects; after it, another reshape
// declares the result to be each device's own again. These reshapes change types and layouts, but no element.
//
// Terms of bf16 that devices add up or multiply are cast to f32 first, and the result is cast back: it is rounded once.
#pragma once

#include "meshwork/ir/graph.h"

namespace meshwork {

// `body`: the body of a manual node of a global program. The result's arguments and outputs have the layouts
// that `body` states. `narrow_sums`: terms of bf16 stay bf16 (CompileOptions::narrow_sums).
Graph ManualBody(const Graph& body, bool narrow_sums = false);

}  // namespace meshwork
