// Loops and branches in a domain: their bodies are programs with step plans of their own.
//
// LowerLoops writes a node so that its bodies read and write the memory of the program around them: every
// result of the node is a variable of each body, and every operand that a body reads is an argument.
//
//   %c1, %ys, %s = scan %c0, %xs, %w …   ->   %t1, %c1, %ys, %s = scan %zero, %c0, %zeros, %xs, %w …
//       (var %c, %x, %w) {                       (var %t, var %c, var %ys, var %s, %xs, %w) {
//     …                                            %x = loop_slice %xs, %t
//     update %c = %next                            …
//     return %y, %z                                %ys1 = loop_store %ys, %y, %t
//   }                                              %s1 = add %s, %z
//                                                  update %t, %c, %ys, %s = %t + 1, %next, %ys1, %s1
//
// Sums of bf16 are made in f32 and rounded once, after the loop: %z is cast to f32, and the final %s is cast back.
//
// So carries are written in place where variables would be, and taking a slice is an op like others. A while
// has two bodies: one writes the condition, the other the carries. keep_first, with which a carry begins to
// owe a sum, becomes a select by the device's index. Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "meshwork/ir/graph.h"

namespace meshwork {

// `local` with all its loops and branches written in this way.
Graph LowerLoops(const Graph& local);

// How the operands of a node that LowerLoops wrote are used.
struct LoweredLoop {
  // Per result, the operand that it holds at the start; -1: none.
  std::vector<int64_t> initial;
  // Operands from here on are arguments of the bodies, after the results.
  int first_read = 0;
};
LoweredLoop LoweredLoopOf(const Node& node);

}  // namespace meshwork
