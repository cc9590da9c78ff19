// What a device holds of a tensor whose layout is strided, as boxes of the tensor.
//
//   {8@x*4} of [32] on [x=2]: device 1 holds the box {4:8, 0:4} of factors, which is the plain part {16:32}
//   {4*8@x} of [32] on [x=2]: device 1 holds {0:4, 4:8}, which are {4:8}, {12:16}, {20:24} and {28:32}
//
// Pure functions; thread-safe.
#pragma once

#include <vector>

#include "meshwork/layout/layout.h"

namespace meshwork {

// A part of a device's block. `box`: in the tensor. `factors`: in its space of factors (Layout::FactorShape), where the
// block is a box; the same as `box` unless the layout is strided. Both have the same elements in the same order.
struct PlainPart {
  Block box, factors;
  bool operator==(const PlainPart&) const = default;
};

// The parts of a box in the space of factors, in its order. None if it is empty.
// REQUIRES: layout.Fits(global).
std::vector<PlainPart> PlainParts(const Layout& layout, const Shape& global, const Block& factors);

// An interval of a dim, and the extents of its factors.
struct DimPart {
  Extent interval;
  Block factors;
};
// The intervals that a box in the factors of one dim consists of, in order. None if it is empty.
std::vector<DimPart> DimParts(const FactorList& factors, const Block& extents);

}  // namespace meshwork
