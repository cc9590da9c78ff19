#include "meshwork/runtime/tensor/strided.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/ops/kernels/elementwise.h"

namespace meshwork {
namespace {

template <size_t kSize>
using Element = std::array<std::byte, kSize>;  // no alignment

// A matrix, element [i, j] of which lies at from[i + j * from_stride] and goes to to[i * to_stride + j]. It is copied in
// tiles, by a buffer, so that each line of a cache is read once and written once.
template <size_t kSize>
void TransposeMatrix(const Element<kSize>* from, int64_t from_stride, Element<kSize>* to, int64_t to_stride,
                     int64_t rows, int64_t columns) {
  constexpr int64_t kTile = kSize <= 2 ? 64 : 32;
  std::array<Element<kSize>, kTile * kTile> tile;
  for (int64_t i = 0; i < rows; i += kTile) {
    const int64_t height = std::min(kTile, rows - i);
    for (int64_t j = 0; j < columns; j += kTile) {
      const int64_t width = std::min(kTile, columns - j);
      for (int64_t c = 0; c < width; ++c)
        std::copy_n(from + i + (j + c) * from_stride, height, tile.data() + c * kTile);
      for (int64_t r = 0; r < height; ++r) {
        Element<kSize>* const row = to + (i + r) * to_stride + j;
        for (int64_t c = 0; c < width; ++c) row[c] = tile[static_cast<size_t>(c * kTile + r)];
      }
    }
  }
}

// The dim, other than the last one, whose elements lie side by side in the source; none if it is too short for tiles.
std::optional<size_t> DimOfTiles(const BroadcastWalk<1>& walk) {
  constexpr int64_t kShortest = 8;
  if (walk.dims.back().strides[0] == 1 || walk.dims.back().size < kShortest) return std::nullopt;
  for (size_t d = 0; d + 1 < walk.dims.size(); ++d)
    if (walk.dims[d].strides[0] == 1 && walk.dims[d].size >= kShortest) return d;
  return std::nullopt;
}

// Copies the matrices of dim `of_tiles` and the last dim, for each index of the other dims.
template <size_t kSize>
void CopyTiles(const Element<kSize>* from, const BroadcastWalk<1>& walk, size_t of_tiles,
               Element<kSize>* to) {
  const size_t last = walk.dims.size() - 1;
  std::vector<int64_t> to_strides(last + 1, 1), index(last + 1, 0);
  for (size_t d = last; d > 0; --d) to_strides[d - 1] = to_strides[d] * walk.dims[d].size;
  for (;;) {
    int64_t from_offset = 0, to_offset = 0;
    for (size_t d = 0; d <= last; ++d) {
      from_offset += index[d] * walk.dims[d].strides[0];
      to_offset += index[d] * to_strides[d];
    }
    TransposeMatrix<kSize>(from + from_offset, walk.dims[last].strides[0], to + to_offset,
                           to_strides[of_tiles], walk.dims[of_tiles].size, walk.dims[last].size);
    size_t d = last;
    while (d-- > 0) {
      if (d == of_tiles) continue;
      if (++index[d] < walk.dims[d].size) break;
      index[d] = 0;
    }
    if (d > last) return;
  }
}

template <size_t kSize>
void CopyElements(const void* from, const BroadcastWalk<1>& walk, int64_t elements, void* to) {
  const auto* const source = static_cast<const Element<kSize>*>(from);
  auto* const target = static_cast<Element<kSize>*>(to);
  if (const std::optional<size_t> of_tiles = DimOfTiles(walk); of_tiles.has_value() && elements > 0)
    return CopyTiles<kSize>(source, walk, *of_tiles, target);
  const int64_t stride = walk.dims.back().strides[0];
  ForEachRun(walk, 0, elements, [&](int64_t at, const std::array<int64_t, 1>& offset, int64_t n) {
    const Element<kSize>* const run = source + offset[0];
    if (stride == 1) std::copy_n(run, n, target + at);
    else
      for (int64_t i = 0; i < n; ++i) target[at + i] = run[i * stride];
  });
}

}  // namespace

void CopyStrided(const void* from, const Shape& shape, const Shape& strides, int64_t size, void* to) {
  MESHWORK_CHECK(shape.size() == strides.size(), "{} strides of {} dims", strides.size(), shape.size());
  const BroadcastWalk<1> walk = MergeDims<1>(shape, {strides});
  const int64_t elements = NumElements(shape);
  switch (size) {
    case 1: return CopyElements<1>(from, walk, elements, to);
    case 2: return CopyElements<2>(from, walk, elements, to);
    case 4: return CopyElements<4>(from, walk, elements, to);
    case 8: return CopyElements<8>(from, walk, elements, to);
    default: MESHWORK_CHECK(false, "elements of {} bytes", size);
  }
}

}  // namespace meshwork
