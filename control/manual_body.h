// The body of a manual region as devices run it.
//
//   %0 = matmul %a, %b : f32[8,6]                      %0 = matmul %a, %b : f32[8,6] {_,_ | sum:x}
//   %1 = device_shift %0 axes=(x) by=1 count=4   ->    %1 = reshape %0 : f32[8,6] of f32[32,6] {x,_}
//                                                      %2 = exchange %1, %1 …
//                                                      %3 = reshape %2 : f32[8,6] {_,_ | sum:x}
//
// A value of the body is a tensor of each device's own. In a local program such a value owes a sum over all
// axes, for it is that of no other device; bools owe an `or`. Before a collective it is said to be the block,
// or the term, that the collective takes it for, and afterwards a value of the device's own again: by
// reshapes that change what is said of it and no element.
#pragma once

#include "meshwork/ir/graph.h"

namespace meshwork {

// `body`: that of a manual node of a global program. Its arguments and results lie as it says.
Graph ManualBody(const Graph& body);

}  // namespace meshwork
