// What Verify knows of blocks: which collective takes a tensor from one layout to another, and when a block
// of one tensor, read under another shape, is a block of another.
#pragma once

#include "meshwork/ir/graph.h"
#include "meshwork/layout/layout.h"

namespace meshwork {

// Whether `node`, a collective or a slice, takes a tensor of `shape` that lies as `a` says to `b`.
bool Moves(const Node& node, const Layout& a, const Layout& b, const Shape& shape);

// Whether each device holds the same elements in the same order of two tensors of one size.
bool HoldAlike(const Layout& a, const Shape& a_shape, const Layout& b, const Shape& b_shape);

}  // namespace meshwork
