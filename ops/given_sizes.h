// Sizes that a function is given, or computes with: the positions of a resized image, roots of unity, capacities. These
// sizes stay when the program runs with another batch (ops/control/rebatch.h), even if they are as large as the batch.
#pragma once

#include "meshwork/ir/graph.h"

namespace meshwork {

// `made`, a generator's result, or a one-hot: the dims that its attributes give are sizes of the function `by`.
inline Value OfGivenSizes(const Value& made, const char* by) {
  if (made.valid()) made.graph()->mutable_node(made.graph()->value(made.id()).node).location.within = by;
  return made;
}

}  // namespace meshwork
