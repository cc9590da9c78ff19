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
ReduceWalk MakeReduceWalk(const Shape& shape, const std::vector<bool>& reduces);

// ---- The loops, which are compiled for each reduction, type and level of CPU.

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

// Rows to fold into a tile of n accumulators, element by element. Row r begins r * row_stride behind `a`. If run is 0, it
// has n elements side by side; else n runs of `run` elements each, `stride` apart, of which each is folded first.
struct ReduceBlock {
  const void* a;
  int64_t rows, row_stride;
  int64_t n, stride, run;
};

inline constexpr size_t kMostBytesOfAccumulator = 8;

// What the walk (reduce.cc) calls for a tile of accumulators.
struct ReduceLoops {
  int64_t element;  // bytes in memory
  bool is_sum_of_floats;
  void (*clear)(void* tile, int64_t n);  // to the identity
  void (*fold)(CpuLevel level, void* tile, const ReduceBlock& block);
  // out[i] = tile[i] / count
  void (*store)(CpuLevel level, void* out, const void* tile, int64_t n, int64_t count);
};

template <typename T, typename F>
void FoldBlock(CpuLevel level, void* tile, const ReduceBlock& block) {
  RunOnCpu<kMostLevel<T>>(
      level,
      [](Compute<T>* tile, const ReduceBlock& block) {
        // Read once: the tile may be anywhere.
        const int64_t rows = block.rows, row_stride = block.row_stride, n = block.n;
        const T* from = static_cast<const T*>(block.a);
        if (block.run == 0) {
          for (int64_t r = 0; r < rows; ++r, from += row_stride) {
            MESHWORK_INDEPENDENT
            for (int64_t i = 0; i < n; ++i) tile[i] = F::Apply(tile[i], from[i]);
          }
        } else {
          const int64_t run = block.run, stride = block.stride;
          for (int64_t r = 0; r < rows; ++r, from += row_stride)
            for (int64_t i = 0; i < n; ++i)
              tile[i] = F::Apply(tile[i], FoldRun<T, F>(from + i * stride, run));
        }
      },
      static_cast<Compute<T>*>(tile), block);
}

template <typename T>
void StoreReduced(CpuLevel level, void* out, const void* tile, int64_t n, int64_t count) {
  using A = Compute<T>;
  RunOnCpu<kMostLevel<T>>(
      level,
      [](T* out, const A* tile, int64_t n, A divisor) {
        if (divisor == A(1)) {
          for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(tile[i]);
        } else if constexpr (std::is_floating_point_v<A>) {
          for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(tile[i] / divisor);
        }
      },
      static_cast<T*>(out), static_cast<const A*>(tile), n, static_cast<A>(count));
}

// Elements of T, accumulators of Compute<T>.
template <typename T, typename F>
ReduceLoops ReduceLoopsOf() {
  using A = Compute<T>;
  static_assert(sizeof(A) <= kMostBytesOfAccumulator);
  return {.element = sizeof(T),
          .is_sum_of_floats = std::is_same_v<F, SumOf<float>>,
          .clear = [](void* tile, int64_t n) { std::fill_n(static_cast<A*>(tile), n, F::Identity()); },
          .fold = FoldBlock<T, F>,
          .store = StoreReduced<T>};
}

// Every result is divided by `count`, which is 1 if they are whole numbers. A unit is an element of the result.
Kernel ReduceKernel(ReduceWalk walk, const ReduceLoops& loops, int64_t count);

}  // namespace meshwork
