// The layout that a tensor has when it is read under another shape and every element stays where it is.
//
//   {x,y} of [8,8] read as [64]                        -> {8@x*8@y}
//   {x:(1)2,x:(2)2} of [2,4] on [x=2*2] read as [8]    -> {x}
//   {x} of [6] on [x=2] read as [3,2]                  -> nothing: its blocks are no boxes of [3,2]
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "meshwork/layout/layout.h"

namespace meshwork {

// Dims [from, from_end) of one shape and [to, to_end) of the other that hold the same elements.
struct ReshapeGroup {
  int from, from_end, to, to_end;

  bool is_single() const { return from_end == from + 1 && to_end == to + 1; }
};

// The smallest groups, in order: [4,6,5] -> [24,5] has [0,2) with [0,1) and [2,3) with [1,2). Dims of size 1
// without a counterpart belong to no group. REQUIRES: the shapes have equally many elements, at least one.
std::vector<ReshapeGroup> ReshapeGroups(const Shape& from, const Shape& to);

// The factors of dims of these sizes under which every device holds the elements that it holds under `from`,
// in the same order; nothing if there are no such factors. A dim of one factor is plain; axes of size 1 are
// left out. REQUIRES: the products of the sizes are equal, and not 0.
std::optional<std::vector<FactorList>> ReshapeFactors(const Mesh& mesh, const FactorList& from,
                                                      std::span<const int64_t> sizes);

// A cut of an axis into a major part of `size` and the rest (Mesh::CutAxis).
struct AxisCut {
  int axis;
  int64_t size;

  bool operator==(const AxisCut&) const = default;
};

// Where to cut the first axis that lies across the end of a dim, if a cut brings ReshapeFactors further. For
// {x} with x=4: [8] read as [2,4] has a cut with a major part of 2, [12] read as [6,2] one of 2, [12] read as
// [3,4] none. REQUIRES: as for ReshapeFactors. Law: `size` is more than 1 and divides the axis.
std::optional<AxisCut> CutForReshape(const Mesh& mesh, const FactorList& from,
                                     std::span<const int64_t> sizes);

// The layout of the tensor read as `shape`; nothing if there is no such layout, or if the tensor is empty.
// Law: element i of every device's buffer has the same place in the tensor, in row-major order. REQUIRES:
// `layout` fits `from`; `from` and `shape` have equally many elements.
std::optional<Layout> Reshaped(const Layout& layout, const Shape& from, const Shape& shape);

}  // namespace meshwork
