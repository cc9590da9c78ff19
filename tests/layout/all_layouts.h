// Lists of layouts and shapes over which tests check laws, and reference functions for the tests.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "mesh/all_meshes.h"
#include "meshwork/layout/layout.h"
#include "meshwork/layout/traffic.h"
#include "support/long_tests.h"

namespace meshwork {

inline Layout Read(const Mesh& mesh, std::string_view text) { return Layout::Parse(mesh, text).value(); }

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

// The layout with every choice of partial axes among those that do not shard it, with each of the given
// reductions; the whole layout first.
inline std::vector<Layout> WithAllPartials(const Layout& whole, const std::vector<ReduceOp>& ops) {
  std::vector<PartialSet> choices = {{}};
  for (int axis = 0; axis < whole.mesh().num_axes(); ++axis) {
    if (whole.ShardedAxes().Contains(axis)) continue;
    for (size_t i = choices.size(); i-- > 0;) {
      choices.push_back(choices[i]);
      choices.back().push_back({axis, ReduceOp::kSum});
    }
  }
  std::vector<Layout> layouts = {whole};
  for (ReduceOp op : ops) {
    for (size_t i = 1; i < choices.size(); ++i) {
      for (Partial& partial : choices[i]) partial.op = op;
      layouts.push_back(whole.WithPartials(choices[i]));
    }
  }
  return layouts;
}

// Every whole layout of a tensor of this shape whose dims have up to `max_factors` factors (a factor may be 1);
// plain layouts are among them.
inline std::vector<Layout> AllStridedLayouts(const Mesh& mesh, const Shape& shape, size_t max_factors) {
  std::vector<std::vector<std::vector<int64_t>>> factorings = {{}};  // per choice, per dim
  for (int64_t size : shape) {
    std::vector<std::vector<std::vector<int64_t>>> longer;
    for (const auto& dims : factorings) {
      for (const std::vector<int64_t>& factors : AllFactorings(size, 1, max_factors)) {
        longer.push_back(dims);
        longer.back().push_back(factors);
      }
    }
    factorings = std::move(longer);
  }
  std::map<std::string, Layout> layouts;
  for (const auto& sizes : factorings) {
    int count = 0;
    for (const std::vector<int64_t>& factors : sizes) count += static_cast<int>(factors.size());
    for (const Layout& flat : AllWholeLayouts(mesh, count)) {
      std::vector<FactorList> dims;
      int f = 0;
      for (const std::vector<int64_t>& factors : sizes) {
        dims.emplace_back();
        for (int64_t size : factors) dims.back().push_back({size, flat.dim(f++)});
      }
      const Layout layout = Layout::Strided(mesh, std::move(dims));
      layouts.emplace(layout.ToString(), layout);
    }
  }
  std::vector<Layout> all;
  for (const auto& [text, layout] : layouts) all.push_back(layout);
  return all;
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
template <typename F>
void ForEachIndex(const Block& block, F&& f) {
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

// The devices that together hold each element of a tensor once. On axes that do not shard the tensor, they have
// the coordinates of `device`.
inline std::vector<int64_t> HoldersFor(int64_t device, const Layout& layout) {
  const Mesh& mesh = layout.mesh();
  std::vector<int64_t> holders;
  for (int64_t other = 0; other < mesh.num_devices(); ++other) {
    bool is_like = true;
    for (int axis = 0; axis < mesh.num_axes(); ++axis)
      is_like = is_like && (layout.ShardedAxes().Contains(axis) ||
                            mesh.CoordinateOn(axis, other) == mesh.CoordinateOn(axis, device));
    if (is_like) holders.push_back(other);
  }
  return holders;
}

inline int64_t CommonElements(const Block& a, const Block& b) {
  int64_t common = 1;
  for (size_t d = 0; d < a.size(); ++d) {
    const int64_t begin = std::max(a[d].start, b[d].start);
    const int64_t end = std::min(a[d].start + a[d].size, b[d].start + b[d].size);
    common *= std::max<int64_t>(0, end - begin);
  }
  return common;
}

// The most elements that one device sends, and receives, if each device gets the missing elements of its block by
// `to` from the holders by `from`.
inline Traffic ExchangedTraffic(const Layout& from, const Layout& to, const Shape& shape) {
  const int64_t devices = from.mesh().num_devices();
  std::vector<int64_t> sent(devices), received(devices);
  for (int64_t device = 0; device < devices; ++device) {
    const Block needs = to.BlockOf(shape, device);
    for (int64_t other : HoldersFor(device, from)) {
      if (other == device) continue;
      const int64_t common = CommonElements(from.BlockOf(shape, other), needs);
      sent[other] += common;
      received[device] += common;
    }
  }
  return {*std::max_element(sent.begin(), sent.end()), *std::max_element(received.begin(), received.end())};
}
inline int64_t Exchanged(const Layout& from, const Layout& to, const Shape& shape) {
  return ExchangedTraffic(from, to, shape).busiest();
}

// A lower bound of the elements that a device moves, for any sequence of steps on a whole tensor: the elements that
// a device lacks, and the share that a holder of a block sends if all its holders share the work evenly.
inline int64_t LeastMoved(const Layout& from, const Layout& to, const Shape& shape) {
  const int64_t devices = from.mesh().num_devices();
  struct Held {
    int64_t holders = 0, asked = 0;
  };
  const auto key_of = [](const Block& block) {
    std::vector<int64_t> key;
    for (const Extent& extent : block) key.insert(key.end(), {extent.start, extent.size});
    return key;
  };
  std::map<std::vector<int64_t>, Held> blocks;
  int64_t least = 0;
  for (int64_t device = 0; device < devices; ++device) {
    const Block has = from.BlockOf(shape, device), needs = to.BlockOf(shape, device);
    least = std::max(least, CommonElements(needs, needs) - CommonElements(has, needs));
    Held& held = blocks[key_of(has)];
    ++held.holders;
    for (int64_t other = 0; other < devices; ++other)
      if (from.BlockOf(shape, other) != has) held.asked += CommonElements(has, to.BlockOf(shape, other));
  }
  // `asked` was counted once per holder.
  for (const auto& [block, held] : blocks) {
    const int64_t all_share = held.holders * held.holders;
    least = std::max(least, (held.asked + all_share - 1) / all_share);
  }
  return least;
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
