// Blocks, for Verify: which collective takes a tensor from one layout to another, and when a block of one
// tensor, read under another shape, is a block of another tensor.
#pragma once

#include "meshwork/ir/graph.h"
#include "meshwork/layout/layout.h"

namespace meshwork {

// Whether `node`, a collective or a slice, takes a tensor of `shape` from layout `a` to layout `b`.
bool Moves(const Node& node, const Layout& a, const Layout& b, const Shape& shape);

// Whether each device holds the same elements, in the same order, of two tensors with equally many elements.
bool HoldAlike(const Layout& a, const Shape& a_shape, const Layout& b, const Shape& b_shape);

}  // namespace meshwork
