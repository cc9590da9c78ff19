// Lists what the laws of layouts are looped over.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "layout/layout.h"

namespace meshwork {

// Every layout of `rank` dims on the mesh, without partial axes.
inline std::vector<Layout> AllWholeLayouts(const Mesh& mesh, int rank) {
  std::vector<Layout> layouts = {Layout::Replicated(mesh, rank)};
  for (int axis = 0; axis < mesh.num_axes(); ++axis) {
    const size_t without = layouts.size();
    for (size_t i = 0; i < without; ++i) {
      for (int d = 0; d < rank; ++d) {
        for (size_t at = 0; at <= layouts[i].dim(d).size(); ++at) {
          AxisList axes = layouts[i].dim(d);
          axes.insert(axes.begin() + static_cast<std::ptrdiff_t>(at), axis);
          layouts.push_back(layouts[i].WithDim(d, axes));
        }
      }
    }
  }
  return layouts;
}

// The layout with every choice of owed reductions, of the given kinds, over the axes that it does
// not shard by; the whole one first.
inline std::vector<Layout> WithAllPartials(const Layout& whole, const std::vector<ReduceOp>& ops) {
  std::vector<Layout> layouts = {whole};
  for (int axis = 0; axis < whole.mesh().num_axes(); ++axis) {
    if (whole.ShardedAxes().Contains(axis)) continue;
    const size_t without = layouts.size();
    for (size_t i = 0; i < without; ++i) {
      for (ReduceOp op : ops) {
        PartialSet partials = layouts[i].partials();
        partials.push_back({axis, op});
        layouts.push_back(layouts[i].WithPartials(partials));
      }
    }
  }
  return layouts;
}

// Every shape of `rank` dims with sizes of the list.
inline std::vector<Shape> AllShapes(int rank, const std::vector<int64_t>& sizes) {
  std::vector<Shape> shapes = {Shape{}};
  for (int d = 0; d < rank; ++d) {
    std::vector<Shape> longer;
    for (const Shape& shape : shapes) {
      for (int64_t size : sizes) {
        longer.push_back(shape);
        longer.back().push_back(size);
      }
    }
    shapes = std::move(longer);
  }
  return shapes;
}

// Calls f(index) for every index within the block, row-major.
inline void ForEachIndex(const Block& block, const std::function<void(const Shape&)>& f) {
  Shape index;
  for (const Extent& extent : block) {
    if (extent.size == 0) return;
    index.push_back(extent.start);
  }
  while (true) {
    f(index);
    size_t d = block.size();
    while (d > 0 && ++index[d - 1] == block[d - 1].start + block[d - 1].size) {
      index[d - 1] = block[d - 1].start;
      --d;
    }
    if (d == 0) return;
  }
}

// The block that is the whole tensor.
inline Block FullBlock(const Shape& shape) {
  Block block;
  for (int64_t size : shape) block.push_back({0, size});
  return block;
}

// Row-major position of an index.
inline int64_t Linear(const Shape& shape, const Shape& index) {
  int64_t linear = 0;
  for (size_t d = 0; d < shape.size(); ++d) linear = linear * shape[d] + index[d];
  return linear;
}

}  // namespace meshwork
