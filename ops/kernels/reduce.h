// The loop of the reductions over dims.
//
// Neighbouring dims are merged if all of them are reduced or all are kept, so that reduced and kept dims alternate:
//
//   f32[8,3,5] over dims 0    ->  reduced 8, kept 15: sums row by row into a tile of 15
//   f32[8,3,5] over dims 1,2  ->  kept 8, reduced 15: every result is a run of 15
//
// Results are made a tile at a time in accumulators of the type they are computed with, on the stack, and rounded
// once when the tile is done; long sums of floats in parts (long_sum.h). Each result is folded in an order that
// depends on the shape alone, so the work can be cut between any two results.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include "absl/container/inlined_vector.h"
#include "meshwork/ir/kernel.h"
#include "meshwork/ops/kernels/elementwise.h"
#include "meshwork/ops/kernels/long_sum.h"
#include "meshwork/ops/kernels/portable/arithmetic.h"

namespace meshwork {

// ---- The identity and the operation of each reduction, on elements in the type they are computed with.

// Whole numbers wrap around.
template <typename T>
struct SumOf {
  static constexpr T Identity() { return 0; }
  static T Apply(T a, T b) { return portable::Sum(a, b); }
};
template <typename T>
struct ProdOf {
  static constexpr T Identity() { return 1; }
  static T Apply(T a, T b) { return portable::Product(a, b); }
};
template <typename T>
struct MaxOf {
  static constexpr T Identity() {
    if constexpr (std::is_floating_point_v<T>) return -std::numeric_limits<T>::infinity();
    else return std::numeric_limits<T>::min();
  }
  static T Apply(T a, T b) { return portable::Larger(a, b); }
};
template <typename T>
struct MinOf {
  static constexpr T Identity() {
    if constexpr (std::is_floating_point_v<T>) return std::numeric_limits<T>::infinity();
    else return std::numeric_limits<T>::max();
  }
  static T Apply(T a, T b) { return portable::Smaller(a, b); }
};
// Bools, as the bytes they are stored in.
template <typename T>
struct AndOf {
  static constexpr T Identity() { return 1; }
  static T Apply(T a, T b) { return a & b; }
};
template <typename T>
struct OrOf {
  static constexpr T Identity() { return 0; }
  static T Apply(T a, T b) { return a | b; }
};

// ---- The walk.

struct ReduceWalk {
  struct Dim {
    int64_t size, stride;  // the stride of the operand
  };
  using Dims = absl::InlinedVector<Dim, 3>;
  Dims reduced;     // outside of the inner two, major to minor
  Dims kept;        // the same
  Dim row;          // the minor kept dim, along which a tile lies
  int64_t run = 0;  // the length of the runs that each result of a row folds; 0: none, row.stride is 1
  int64_t results = 1;
};

// `reduces[d]`: dim d of `shape` is folded.
inline ReduceWalk MakeReduceWalk(const Shape& shape, const std::vector<bool>& reduces) {
  ReduceWalk walk;
  ReduceWalk::Dims reversed;
  std::vector<bool> folded;  // per merged dim
  int64_t stride = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    if (!reduces[d]) walk.results *= shape[d];
    if (shape[d] == 1) continue;
    if (!folded.empty() && folded.back() == reduces[d]) {
      reversed.back().size *= shape[d];
    } else {
      reversed.push_back({shape[d], stride});
      folded.push_back(reduces[d]);
    }
    stride *= shape[d];
  }
  size_t next = 0;
  if (next < reversed.size() && folded[next]) walk.run = reversed[next++].size;
  const bool is_empty_run = next == 1 && walk.run == 0;
  walk.row = next < reversed.size() ? reversed[next++] : ReduceWalk::Dim{1, 1};
  if (is_empty_run) walk.reduced.push_back({0, 0});
  for (size_t d = reversed.size(); d-- > next;) (folded[d] ? walk.reduced : walk.kept).push_back(reversed[d]);
  return walk;
}

// Calls f(offset) for every index of `dims`, in order.
template <typename F>
void ForEachOffset(const ReduceWalk::Dims& dims, F&& f) {
  if (dims.empty()) return f(0);
  std::array<int64_t, kMaxRank> index = {};
  for (const ReduceWalk::Dim& dim : dims)
    if (dim.size == 0) return;
  int64_t offset = 0;
  while (true) {
    f(offset);
    size_t d = dims.size();
    do {
      if (d-- == 0) return;
      offset += dims[d].stride;
      if (++index[d] < dims[d].size) break;
      offset -= dims[d].size * dims[d].stride;
      index[d] = 0;
    } while (true);
  }
}

// Folds n contiguous elements in lanes, element i in lane i % kLanes, then the halves of the lanes: fixed
// order, vectorises. REQUIRES: kLanes is a power of two.
template <int kLanes, typename T, typename F>
Compute<T> FoldLanes(const T* a, int64_t n) {
  std::array<Compute<T>, kLanes> lanes;
  lanes.fill(F::Identity());
  const int64_t whole = n / kLanes * kLanes;
  for (int64_t i = 0; i < whole; i += kLanes)
    for (int l = 0; l < kLanes; ++l) lanes[l] = F::Apply(lanes[l], a[i + l]);
  for (int l = 0; whole + l < n; ++l) lanes[l] = F::Apply(lanes[l], a[whole + l]);
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int l = 0; l < half; ++l) lanes[l] = F::Apply(lanes[l], lanes[l + half]);
  return lanes[0];
}

// FoldLanes with as many lanes as are worth combining at the end; long sums of floats in parts.
template <typename T, typename F>
Compute<T> FoldRun(const T* a, int64_t n) {
  if constexpr (std::is_same_v<F, SumOf<float>>) {
    constexpr int kLanes = 32, kPart = kLanes * kTermsOfPart;
    if (n > kPart) {
      double sum = 0;
      for (int64_t i = 0; i < n; i += kPart)
        sum += FoldLanes<kLanes, T, F>(a + i, std::min<int64_t>(kPart, n - i));
      return static_cast<float>(sum);
    }
  }
  if (n >= 128) return FoldLanes<32, T, F>(a, n);
  if (n >= 16) return FoldLanes<8, T, F>(a, n);
  Compute<T> result = F::Identity();
  for (int64_t i = 0; i < n; ++i) result = F::Apply(result, a[i]);
  return result;
}

inline constexpr int64_t kReduceTile = 512;

// Folds n neighbours of a row of results, which begins at `a`, into `tile`.
template <typename T, typename F>
void FoldTile(const ReduceWalk& walk, const T* a, int64_t n, Compute<T>* tile) {
  std::fill_n(tile, n, F::Identity());
  [[maybe_unused]] std::array<double, std::is_same_v<F, SumOf<float>> ? kReduceTile : 0> sums;
  [[maybe_unused]] LongSum sum(sums.data(), 1, n, kTermsOfPart);
  ForEachOffset(walk.reduced, [&](int64_t offset) {
    const T* from = a + offset;
    if constexpr (std::is_same_v<F, SumOf<float>>)
      if (sum.Begins(1, tile, n)) std::fill_n(tile, n, F::Identity());
    if (walk.run == 0) {
      MESHWORK_INDEPENDENT
      for (int64_t i = 0; i < n; ++i) tile[i] = F::Apply(tile[i], from[i]);
    } else {
      for (int64_t i = 0; i < n; ++i)
        tile[i] = F::Apply(tile[i], FoldRun<T, F>(from + i * walk.row.stride, walk.run));
    }
  });
  if constexpr (std::is_same_v<F, SumOf<float>>) sum.Finish(tile, n);
}

// Elements of T, accumulators of Compute<T>; every result is divided by `divisor` unless it is 1. A unit is
// an element of the result.
template <typename T, typename F>
Kernel ReduceKernel(ReduceWalk walk, Compute<T> divisor) {
  using A = Compute<T>;
  const int64_t units = walk.results;
  // Results fall into parts with the operand along the kept dims that come before all reduced ones.
  int64_t parts = 1;
  if (walk.reduced.empty()) {
    parts = walk.results;
  } else {
    for (const ReduceWalk::Dim& dim : walk.kept)
      if (dim.stride > walk.reduced.front().stride) parts *= dim.size;
  }
  return {.run = OnThisCpu<kMostLevel<T>>([walk = std::move(walk), divisor](const KernelArgs& args) {
            std::array<A, kReduceTile> tile;
            for (int64_t at = args.begin; at < args.end;) {
              const int64_t first = at % walk.row.size;
              const int64_t n = std::min({walk.row.size - first, args.end - at, kReduceTile});
              const T* a = args.In<T>(0) + first * walk.row.stride;
              int64_t rest = at / walk.row.size;
              for (size_t d = walk.kept.size(); d-- > 0; rest /= walk.kept[d].size)
                a += rest % walk.kept[d].size * walk.kept[d].stride;
              FoldTile<T, F>(walk, a, n, tile.data());
              T* out = args.Out<T>(0) + at;
              for (int64_t i = 0; i < n; ++i)
                out[i] = static_cast<T>(divisor == A(1) ? tile[i] : static_cast<A>(tile[i] / divisor));
              at += n;
            }
          }),
          .units = units,
          .by_rows = true,
          .parts = {parts}};
}

}  // namespace meshwork
