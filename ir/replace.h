// Changing what values of a graph are, in place, so that handles to them stay valid. For functions that add to a program
// which a user has built; passes copy programs (ir/rewrite.h).
#pragma once

#include <cstddef>
#include <span>

#include "meshwork/ir/graph.h"

namespace meshwork {

// A value, and the value of the same type that takes its place.
struct Replacement {
  ValueId value = kNoValue, by = kNoValue;
};

// Puts other values in the place of values of a graph, after nodes that read them were added. From now on the handle and
// the pin of `value`, and all nodes, outputs and updates that read it, belong to `by`. The nodes from `first` on compute
// the replacements. They move right behind the nodes whose results they replace; those of one replacement still read the
// old value.
//
//   %y = matmul %x, %w                         %1 = matmul %x, %w
//   %z = relu %y               becomes         %2 = matmul %x, %v
//   %2 = matmul %x, %v         {y, 3}          %y = add %1, %2
//   %3 = add %y, %2                            %z = relu %y
//
// The handle of `by` means the old value from now on.
//
// REQUIRES: `by` has the type of `value`; of a node one result at most is replaced; each `value` is the result of a node before `first`; the `by` are results of nodes from `first` on, in the
// order of these nodes, the last one of the last node; a node from `first` on reads values that come before, or are, the
// value that it replaces, or are made for the same replacement.
void ReplaceInPlace(Graph& graph, size_t first, std::span<const Replacement> replacements);

}  // namespace meshwork
