// Loops for elementwise rows with right-aligned broadcast.
//
// Dims that every operand walks alike are merged, so that nearly always one or two dims are left
// and the inner loop runs over contiguous memory or a repeated scalar, which compilers vectorise.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "meshwork/base/cpu_dispatch.h"
#include "meshwork/ir/kernel.h"

namespace meshwork {

// The order in which N operands are walked for a dense result: per merged dim, its size and each operand's stride.
template <int N>
struct BroadcastWalk {
  struct Dim {
    int64_t size;
    std::array<int64_t, N> strides;  // in elements; 0 repeats
  };
  absl::InlinedVector<Dim, 4> dims;  // major to minor; at least one
};

// Elements of one output index are read before it is written and indices do not depend on each
// other, even where a result shares an operand's buffer.
#if defined(__clang__)
#define MESHWORK_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define MESHWORK_INDEPENDENT _Pragma("GCC ivdep")
#endif

// Merges the dims of `shape` that all operands walk alike; strides[o][d] is operand o's stride
// (in elements) along dim d.
template <int N>
BroadcastWalk<N> MergeDims(const Shape& shape, const std::array<Shape, N>& strides) {
  absl::InlinedVector<typename BroadcastWalk<N>::Dim, 4> reversed;
  for (int d = static_cast<int>(shape.size()) - 1; d >= 0; --d) {
    if (shape[d] == 1) continue;
    typename BroadcastWalk<N>::Dim dim{shape[d], {}};
    for (int o = 0; o < N; ++o) dim.strides[o] = strides[o][d];
    bool merge = !reversed.empty();
    for (int o = 0; merge && o < N; ++o)
      merge = dim.strides[o] == reversed.back().strides[o] * reversed.back().size;
    if (merge) reversed.back().size *= dim.size;
    else reversed.push_back(dim);
  }
  if (reversed.empty()) {  // one element
    reversed.push_back({1, {}});
    reversed.back().strides.fill(1);
  }
  BroadcastWalk<N> walk;
  walk.dims.assign(reversed.rbegin(), reversed.rend());
  return walk;
}

// The walk of the first N operands, broadcast to result 0.
template <int N>
BroadcastWalk<N> MakeWalk(const KernelSpec& spec) {
  const Shape& shape = spec.results[0].local.shape;
  std::array<Shape, N> strides;
  for (int o = 0; o < N; ++o) {
    const Shape& operand = spec.operands[o].local.shape;
    strides[o].assign(shape.size(), 0);
    int64_t dense = 1;
    for (size_t i = operand.size(); i-- > 0;) {
      const size_t d = i + shape.size() - operand.size();
      strides[o][d] = operand[i] == shape[d] ? dense : 0;
      dense *= operand[i];
    }
  }
  return MergeDims<N>(shape, strides);
}

// Kernel::parts of operand o with `elements` elements: it can be cut into parts along the major dims, as far as the
// walk goes through it densely.
template <int N>
int64_t PartsOf(const BroadcastWalk<N>& walk, int o, int64_t elements) {
  int64_t parts = 1;
  for (const auto& dim : walk.dims) {
    if (dim.size == 0 || elements % dim.size != 0 || dim.strides[o] != elements / dim.size) break;
    parts *= dim.size;
    elements = dim.strides[o];
  }
  return parts;
}

// The kernel of a loop over a broadcast walk, with its units and parts.
template <int N>
Kernel BroadcastKernel(const KernelSpec& spec, const BroadcastWalk<N>& walk,
                       std::function<void(const KernelArgs&)> run) {
  Kernel kernel{.run = std::move(run), .units = spec.results[0].local.num_elements(), .by_rows = true};
  for (int o = 0; o < N; ++o) kernel.parts.push_back(PartsOf(walk, o, spec.operands[o].local.num_elements()));
  return kernel;
}

// Calls row(result offset, operand offsets, length) for the runs of elements [begin, end).
template <int N, typename Row>
void ForEachRun(const BroadcastWalk<N>& walk, int64_t begin, int64_t end, Row&& row) {
  if (begin >= end) return;
  using Dim = typename BroadcastWalk<N>::Dim;
  const Dim& inner = walk.dims.back();
  const size_t outer = walk.dims.size() - 1;
  std::array<int64_t, kMaxRank> index;  // of the dims outside of the inner one
  std::array<int64_t, N> start = {};    // where the operands have the run's row
  int64_t at = begin % inner.size, rest = begin / inner.size;
  for (size_t d = outer; d-- > 0; rest /= walk.dims[d].size) {
    index[d] = rest % walk.dims[d].size;
    for (int o = 0; o < N; ++o) start[o] += index[d] * walk.dims[d].strides[o];
  }
  while (true) {
    std::array<int64_t, N> offsets;
    for (int o = 0; o < N; ++o) offsets[o] = start[o] + at * inner.strides[o];
    const int64_t length = std::min(inner.size - at, end - begin);
    row(begin, offsets, length);
    begin += length;
    if (begin == end) return;
    at = 0;
    for (size_t d = outer; d-- > 0;) {
      const Dim& dim = walk.dims[d];
      const bool carries = ++index[d] == dim.size;
      for (int o = 0; o < N; ++o) start[o] += dim.strides[o] * (carries ? 1 - dim.size : 1);
      if (!carries) break;
      index[d] = 0;
    }
  }
}

// The type of an element in memory. Padding may hold any byte; to read such a byte as a bool would be
// undefined.
template <typename T>
using Stored = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;

// An element in the type that it is computed with.
template <typename T>
Compute<T> Load(Stored<T> x) {
  return static_cast<Compute<T>>(x);
}

// The level up to which loops over Ts are compiled: wide vectors are worth their compile time where numbers are narrow.
template <typename T>
inline constexpr CpuLevel kMostLevel = std::is_same_v<Compute<T>, float> ? CpuLevel::kV4 : CpuLevel::kV3;

// A function that runs `body` as compiled for this CPU (base/cpu_dispatch.h).
template <CpuLevel kMost = CpuLevel::kV4, typename Body>
auto OnThisCpu(Body body) {
  return [body = std::move(body)](const KernelArgs& args) { RunOnThisCpu<kMost>(body, args); };
}

// ---- Functions of elements.
//
// Only the loop over a row of elements is compiled for each function and type. Reals of 16 bits have no loop of their
// own: a piece of them at a time is converted to floats, in the L1 cache, and the results are rounded.

// The conversions of a 16-bit type to floats and back; null for every other type.
struct ElementStorage {
  int64_t size;  // of an element, in bytes
  void (*widen)(CpuLevel level, const void* from, float* to, int64_t n) = nullptr;
  void (*narrow)(CpuLevel level, const float* from, void* to, int64_t n) = nullptr;
};

template <typename T>
ElementStorage ElementStorageOf() {
  if constexpr (!kIsNarrowReal<T>) {
    return {.size = sizeof(Stored<T>)};
  } else {
    return {.size = sizeof(T),
            .widen =
                [](CpuLevel level, const void* from, float* to, int64_t n) {
                  RunOnCpu(level, [=] {
                    MESHWORK_INDEPENDENT
                    for (int64_t i = 0; i < n; ++i) to[i] = static_cast<const T*>(from)[i];
                  });
                },
            .narrow =
                [](CpuLevel level, const float* from, void* to, int64_t n) {
                  RunOnCpu(level, [=] {
                    MESHWORK_INDEPENDENT
                    for (int64_t i = 0; i < n; ++i) static_cast<T*>(to)[i] = T(from[i]);
                  });
                }};
  }
}

struct UnaryRow {
  const void* a;
  void* out;
  int64_t n;
};
using UnaryLoop = void (*)(CpuLevel level, const void* f, const UnaryRow& row);

// Rows of n elements. Row r of an operand begins r steps behind its first row, that of the results r * n.
struct BinaryBlock {
  struct Operand {
    const void* first;
    bool repeats;  // all elements of a row take its first one
    int64_t step;
  };
  Operand a, b;  // at most one of them repeats
  void* out;
  int64_t rows, n;
};
using BinaryLoop = void (*)(CpuLevel level, const BinaryBlock& block);

// Kernels that run such loops over their results. `f` is handed to the loop.
Kernel UnaryRows(const KernelSpec& spec, UnaryLoop loop, std::shared_ptr<const void> f, ElementStorage in,
                 ElementStorage out);
Kernel BinaryRows(const KernelSpec& spec, BinaryLoop loop, ElementStorage in, ElementStorage out);

// The type that a loop writes: 16-bit results of 16-bit operands are rounded behind it.
template <typename In, typename Out>
using LoopOut = std::conditional_t<kIsNarrowReal<In> && kIsNarrowReal<Out>, float, Out>;

// out[i] = f(a[i]). In: a type to compute with.
template <typename In, typename Out, typename F>
void RunUnaryRow(CpuLevel level, const void* f, const UnaryRow& row) {
  RunOnCpu<kMostLevel<In>>(
      level,
      [](const F& f, const UnaryRow& row) {
        const auto* a = static_cast<const Stored<In>*>(row.a);
        auto* out = static_cast<Out*>(row.out);
        const int64_t n = row.n;  // read once: bytes may be written anywhere
        MESHWORK_INDEPENDENT
        for (int64_t i = 0; i < n; ++i) out[i] = static_cast<Out>(f(Load<In>(a[i])));
      },
      *static_cast<const F*>(f), row);
}

// out[i] = f(a[i], b[i]). F has no state.
template <typename In, typename Out, typename F>
void RunBinaryBlock(CpuLevel level, const BinaryBlock& block) {
  RunOnCpu<kMostLevel<In>>(
      level,
      [](const BinaryBlock& block) {
        const F f{};
        const auto* a = static_cast<const Stored<In>*>(block.a.first);
        const auto* b = static_cast<const Stored<In>*>(block.b.first);
        auto* out = static_cast<Out*>(block.out);
        // Read once: bytes may be written anywhere.
        const int64_t rows = block.rows, n = block.n, a_step = block.a.step, b_step = block.b.step;
        if (block.b.repeats) {
          for (int64_t r = 0; r < rows; ++r, a += a_step, b += b_step, out += n) {
            const In scalar = Load<In>(*b);
            MESHWORK_INDEPENDENT
            for (int64_t i = 0; i < n; ++i) out[i] = static_cast<Out>(f(Load<In>(a[i]), scalar));
          }
        } else if (block.a.repeats) {
          for (int64_t r = 0; r < rows; ++r, a += a_step, b += b_step, out += n) {
            const In scalar = Load<In>(*a);
            MESHWORK_INDEPENDENT
            for (int64_t i = 0; i < n; ++i) out[i] = static_cast<Out>(f(scalar, Load<In>(b[i])));
          }
        } else {
          for (int64_t r = 0; r < rows; ++r, a += a_step, b += b_step, out += n) {
            MESHWORK_INDEPENDENT
            for (int64_t i = 0; i < n; ++i) out[i] = static_cast<Out>(f(Load<In>(a[i]), Load<In>(b[i])));
          }
        }
      },
      block);
}

// out[i] = f(a[i]), computed in Compute<In>.
template <typename In, typename Out, typename F>
Kernel UnaryKernel(const KernelSpec& spec, F f) {
  return UnaryRows(spec, RunUnaryRow<Compute<In>, LoopOut<In, Out>, F>, std::make_shared<F>(std::move(f)),
                   ElementStorageOf<In>(), ElementStorageOf<Out>());
}

// out[i] = f(a[i], b[i]) with broadcast, computed in Compute<In>.
template <typename In, typename Out, typename F>
Kernel BinaryKernel(const KernelSpec& spec, F) {
  return BinaryRows(spec, RunBinaryBlock<Compute<In>, LoopOut<In, Out>, F>, ElementStorageOf<In>(),
                    ElementStorageOf<Out>());
}

// out[i] = condition[i] ? a[i] : b[i] with broadcast.
template <typename T>
Kernel SelectKernel(const KernelSpec& spec) {
  const BroadcastWalk<3> walk = MakeWalk<3>(spec);
  return BroadcastKernel<3>(spec, walk, OnThisCpu([walk](const KernelArgs& args) {
                              const std::array<int64_t, 3>& strides = walk.dims.back().strides;
                              const int64_t sc = strides[0], sa = strides[1], sb = strides[2];
                              ForEachRun(walk, args.begin, args.end,
                                         [&](int64_t to, const std::array<int64_t, 3>& from, int64_t n) {
                                           const uint8_t* c = args.In<uint8_t>(0) + from[0];
                                           const T* a = args.In<T>(1) + from[1];
                                           const T* b = args.In<T>(2) + from[2];
                                           T* out = args.Out<T>(0) + to;
                                           if (sc == 1 && sa == 1 && sb == 0) {
                                             const T other = *b;
                                             MESHWORK_INDEPENDENT
                                             for (int64_t i = 0; i < n; ++i) out[i] = c[i] ? a[i] : other;
                                           } else {
                                             MESHWORK_INDEPENDENT
                                             for (int64_t i = 0; i < n; ++i)
                                               out[i] = c[i * sc] ? a[i * sa] : b[i * sb];
                                           }
                                         });
                            }));
}

}  // namespace meshwork
