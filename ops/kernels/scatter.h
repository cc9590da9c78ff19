// The loop of the rows that add updates at places: out[row_of(i), :] += updates[i, :], in the order of i.
#pragma once

#include <algorithm>
#include <type_traits>

#include "meshwork/ops/kernels/elementwise.h"
#include "meshwork/ops/kernels/portable/arithmetic.h"

namespace meshwork {

// A part of one [n, inner] slab of the result.
struct ScatterTile {
  int64_t first_row, rows, first_column, columns;
};

// Sets `sums` [tile.rows, tile.columns] to the sums of the updates, of `count` updates [count, inner], that
// fall into the tile.
template <typename T, typename RowOf>
void AddTile(int64_t count, int64_t inner, const ScatterTile& tile, const T* updates, const RowOf& row_of,
             Compute<T>* sums) {
  std::fill_n(sums, tile.rows * tile.columns, Compute<T>(0));
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = row_of(i) - tile.first_row;
    if (row < 0 || row >= tile.rows) continue;
    const T* from = updates + i * inner + tile.first_column;
    Compute<T>* to = sums + row * tile.columns;
    MESHWORK_INDEPENDENT
    for (int64_t c = 0; c < tile.columns; ++c) to[c] = portable::Sum<Compute<T>>(to[c], from[c]);
  }
}

// Sets rows [begin, end) of a slab. `row_of(i)`: the row of update i; a row beyond the slab is left out. If
// the elements are computed in another type than they are stored in, they are summed tile by tile outside of
// the result, so that each is rounded once.
template <typename T, typename RowOf>
void AddRows(int64_t count, int64_t inner, int64_t begin, int64_t end, const T* updates, const RowOf& row_of,
             T* out) {
  if constexpr (std::is_same_v<T, Compute<T>>) {
    AddTile<T>(count, inner, {begin, end - begin, 0, inner}, updates, row_of, out + begin * inner);
  } else {
    constexpr int64_t kTile = 8192;
    Compute<T> sums[kTile];
    const int64_t columns = std::min(inner, kTile), rows = kTile / std::max<int64_t>(columns, 1);
    for (int64_t row = begin; row < end; row += rows) {
      for (int64_t column = 0; column < inner; column += columns) {
        const ScatterTile tile{row, std::min(rows, end - row), column, std::min(columns, inner - column)};
        AddTile<T>(count, inner, tile, updates, row_of, sums);
        for (int64_t r = 0; r < tile.rows; ++r)
          for (int64_t c = 0; c < tile.columns; ++c)
            out[(row + r) * inner + column + c] = T(sums[r * tile.columns + c]);
      }
    }
  }
}

// Calls f(slab, first row, end row) for the rows [begin, end) of slabs of n rows.
template <typename F>
void ForEachRowOfSlabs(int64_t n, int64_t begin, int64_t end, F&& f) {
  while (begin < end) {
    const int64_t first = begin % n, last = std::min(n, first + end - begin);
    f(begin / n, first, last);
    begin += last - first;
  }
}

}  // namespace meshwork
