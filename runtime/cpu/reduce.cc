#include "meshwork/runtime/cpu/reduce.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "meshwork/base/cpu_dispatch.h"
#include "meshwork/ops/kernels/elementwise.h"
#include "meshwork/ops/kernels/reduce.h"

namespace meshwork {
namespace {

// Bytes that are reduced at a time: this part of the target stays in the L1 cache over all sources.
constexpr int64_t kReducedBytes = 4096;

// Integers are reduced as unsigned, because padding holds anything and may overflow.
template <typename T>
using Arithmetic =
    typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>::type;

template <ReduceOp op, typename T>
T Combine(T a, T b) {
  if constexpr (kIsNarrowReal<T>) {
    return T(Combine<op>(float{a}, float{b}));
  } else if constexpr (op == ReduceOp::kSum) {
    return static_cast<T>(Arithmetic<T>(a) + Arithmetic<T>(b));
  } else if constexpr (op == ReduceOp::kProd) {
    return static_cast<T>(Arithmetic<T>(a) * Arithmetic<T>(b));
  } else if constexpr (op == ReduceOp::kMax) {
    return MaxOf<T>::Apply(a, b);
  } else {
    return MinOf<T>::Apply(a, b);
  }
}

// Bools are bytes here: a byte that is neither 0 nor 1 may lie in padding.
struct Bool {
  uint8_t byte;
};
template <ReduceOp op>
Bool Combine(Bool a, Bool b) {
  const bool any = op == ReduceOp::kSum || op == ReduceOp::kMax || op == ReduceOp::kOr;
  return {static_cast<uint8_t>(any ? a.byte | b.byte : a.byte & b.byte)};
}

// to[i] = from[0][i] op from[1][i] op …, with a source for each k.
template <ReduceOp op, typename T, size_t... k>
void ReduceTile(T* to, const T* const* from, int64_t count, std::index_sequence<0, k...>) {
  const T* const first = from[0];
  const T* const others[] = {from[k]...};
  MESHWORK_INDEPENDENT
  for (int64_t i = 0; i < count; ++i) {
    T result = first[i];
    ((result = Combine<op>(result, others[k - 1][i])), ...);
    to[i] = result;
  }
}

template <ReduceOp op, typename T>
void ReduceTiles(T* to, std::span<const std::byte* const> sources, int64_t offset, int64_t count) {
  constexpr int64_t kTile = kReducedBytes / static_cast<int64_t>(sizeof(T));
  for (int64_t tile = 0; tile < count; tile += kTile) {
    const int64_t size = std::min(kTile, count - tile);
    const T* from[8];
    for (size_t next = 0; next < sources.size();) {
      // Many in one pass, so that the target is not read and written for each source.
      size_t n = 0;
      if (next > 0) from[n++] = to + tile;  // what is reduced so far
      const size_t left = sources.size() - next + n;
      const size_t pass = left >= 8 ? 8 : left >= 4 ? 4 : 2;
      while (n < pass) from[n++] = reinterpret_cast<const T*>(sources[next++]) + offset + tile;
      if (pass == 8) ReduceTile<op>(to + tile, from, size, std::make_index_sequence<8>());
      else if (pass == 4) ReduceTile<op>(to + tile, from, size, std::make_index_sequence<4>());
      else ReduceTile<op>(to + tile, from, size, std::make_index_sequence<2>());
    }
  }
}

template <ReduceOp op, typename T>
void ReduceAs(std::byte* to, std::span<const std::byte* const> sources, int64_t offset, int64_t count) {
  RunOnThisCpu<kMostLevel<T>>([&] { ReduceTiles<op>(reinterpret_cast<T*>(to), sources, offset, count); });
}

}  // namespace

void Reduce(ReduceOp op, DType dtype, std::byte* to, std::span<const std::byte* const> sources,
            int64_t offset, int64_t count) {
  if (sources.size() == 1) {
    const int64_t size = DTypeSize(dtype);
    const std::byte* from = sources[0] + offset * size;
    if (to != from) std::memcpy(to, from, static_cast<size_t>(count * size));
    return;
  }
  DispatchAny(dtype, [&](auto zero) {
    using T = std::conditional_t<std::is_same_v<decltype(zero), bool>, Bool, decltype(zero)>;
    switch (op) {
      case ReduceOp::kSum: return ReduceAs<ReduceOp::kSum, T>(to, sources, offset, count);
      case ReduceOp::kMax: return ReduceAs<ReduceOp::kMax, T>(to, sources, offset, count);
      case ReduceOp::kMin: return ReduceAs<ReduceOp::kMin, T>(to, sources, offset, count);
      case ReduceOp::kProd: return ReduceAs<ReduceOp::kProd, T>(to, sources, offset, count);
      case ReduceOp::kAnd: return ReduceAs<ReduceOp::kAnd, T>(to, sources, offset, count);
      case ReduceOp::kOr: return ReduceAs<ReduceOp::kOr, T>(to, sources, offset, count);
    }
  });
}

}  // namespace meshwork
