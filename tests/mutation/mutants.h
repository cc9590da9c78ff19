// Mistakes that a compiler could make, made one at a time in a right local program.
//
//   for (const Mutant& mutant : MutantsOf(program.body)) …   // each still runs
//
// A collective dropped, doubled, of another operation, over other axes or from another dim; a mask dropped,
// or with the wrong identity; a value said to lie as it does not: axes in another order, on another dim,
// another axis, a reduction owed that is not or not owed that is; a value read in the place of another,
// operands swapped, an op left out (a gradient's sum), other attributes; an output or an update of another
// value, a new value read where the old one is meant; an update dropped.
#pragma once

#include <string>
#include <vector>

#include "ops/graph.h"

namespace meshwork {

struct Mutant {
  std::string kind;  // "drop", "relabel", …
  std::string what;  // where
  Graph graph;
};

// In an order that depends on the program alone. Local types agree as they do in the original, so that
// kernels stay within their buffers.
std::vector<Mutant> MutantsOf(const Graph& local);

}  // namespace meshwork
