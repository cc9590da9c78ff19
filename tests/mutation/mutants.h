// Mistakes that a compiler could make, made one at a time in a right local program.
//
//   ForEachMutant(program.body, [](Mutant mutant) { … });  // each still runs
//
// A collective dropped, doubled, of another operation, over other axes, over another group, over axes in
// another order, or from another dim; a sum dropped that a gradient needs; a slice of another block; a mask
// dropped, along fewer dims, or with the wrong identity; a value said to lie as it does not: axes in another
// order, on another dim, another axis, a reduction owed that is not or not owed that is; a value read in the
// place of another, operands swapped, an op left out, other attributes; a move that takes elements from one
// place beside the right ones, a fill that is -0, NaN or infinity in the place of another; an output or an
// update of another value; the wrong branch; terms of a sum added with another sign, twice, or in another
// order, or the sum twice; a read of a variable moved behind its update; the old value read where the new one
// is meant; an update dropped. In bodies of loops and branches the same, where carries are the variables.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "meshwork/ir/graph.h"

namespace meshwork {

struct Mutant {
  std::string kind;  // "drop", "relabel", …
  std::string what;  // where
  Graph graph;
  bool in_body = false;  // of a loop or a branch
};

// Calls `use` with each, in an order that depends on the program alone. Local types agree as they do in the
// original, so that kernels stay within their buffers.
void ForEachMutant(const Graph& local, const std::function<void(Mutant)>& use);

}  // namespace meshwork
