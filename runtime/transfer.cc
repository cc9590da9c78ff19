#include "runtime/transfer.h"

#include <algorithm>
#include <type_traits>

#include "base/status.h"

namespace meshwork {
namespace {

// Elements reduced at a time: the target's part stays in the L1 cache over all sources.
constexpr int64_t kTile = 2048;
// Sources combined in one pass over a tile, so that the target is not written once per source.
constexpr int kBatch = 4;

// Integers are reduced as unsigned, because padding holds anything and may overflow.
template <typename T>
using Arithmetic =
    typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>::type;

template <ReduceOp op, typename T>
T Combine(T a, T b) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    return T(Combine<op>(float{a}, float{b}));
  } else if constexpr (op == ReduceOp::kSum) {
    return static_cast<T>(Arithmetic<T>(a) + Arithmetic<T>(b));
  } else if constexpr (op == ReduceOp::kProd) {
    return static_cast<T>(Arithmetic<T>(a) * Arithmetic<T>(b));
  } else if constexpr (op == ReduceOp::kMax) {
    return a > b || a != a ? a : b;
  } else {
    return a < b || a != a ? a : b;
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

template <ReduceOp op, typename T>
void ReduceTile(T* to, const T* const* from, int sources, int64_t count) {
  switch (sources) {
    case 1:
      if (to != from[0]) std::copy(from[0], from[0] + count, to);
      return;
    case 2:
      for (int64_t i = 0; i < count; ++i) to[i] = Combine<op>(from[0][i], from[1][i]);
      return;
    case 3:
      for (int64_t i = 0; i < count; ++i)
        to[i] = Combine<op>(Combine<op>(from[0][i], from[1][i]), from[2][i]);
      return;
    default:
      for (int64_t i = 0; i < count; ++i) {
        to[i] = Combine<op>(Combine<op>(Combine<op>(from[0][i], from[1][i]), from[2][i]), from[3][i]);
      }
  }
}

template <ReduceOp op, typename T>
void ReduceAs(T* to, std::span<const std::byte* const> sources, int64_t offset, int64_t count) {
  for (int64_t tile = 0; tile < count; tile += kTile) {
    const int64_t size = std::min(kTile, count - tile);
    size_t next = 0;
    do {
      const T* from[kBatch];
      int n = 0;
      if (next > 0) from[n++] = to + tile;  // what is reduced so far
      while (n < kBatch && next < sources.size()) {
        from[n++] = reinterpret_cast<const T*>(sources[next++]) + offset + tile;
      }
      ReduceTile<op, T>(to + tile, from, n, size);
    } while (next < sources.size());
  }
}

template <typename T>
void ReduceTyped(ReduceOp op, std::byte* to, std::span<const std::byte* const> sources, int64_t offset,
                 int64_t count) {
  T* typed = reinterpret_cast<T*>(to);
  switch (op) {
    case ReduceOp::kSum: return ReduceAs<ReduceOp::kSum, T>(typed, sources, offset, count);
    case ReduceOp::kMax: return ReduceAs<ReduceOp::kMax, T>(typed, sources, offset, count);
    case ReduceOp::kMin: return ReduceAs<ReduceOp::kMin, T>(typed, sources, offset, count);
    case ReduceOp::kProd: return ReduceAs<ReduceOp::kProd, T>(typed, sources, offset, count);
    case ReduceOp::kAnd: return ReduceAs<ReduceOp::kAnd, T>(typed, sources, offset, count);
    case ReduceOp::kOr: return ReduceAs<ReduceOp::kOr, T>(typed, sources, offset, count);
  }
}

}  // namespace

void Reduce(ReduceOp op, DType dtype, std::byte* to, std::span<const std::byte* const> sources,
            int64_t offset, int64_t count) {
  Dispatch(dtype, [&](auto zero) {
    using T = std::conditional_t<std::is_same_v<decltype(zero), bool>, Bool, decltype(zero)>;
    ReduceTyped<T>(op, to, sources, offset, count);
  });
}

void RunTransfers(std::span<const Transfer> transfers, std::span<const WorkSlice> slices,
                  std::span<std::byte* const> addresses) {
  for (const WorkSlice& slice : slices) {
    const Transfer& transfer = transfers[slice.item];
    const int64_t size = DTypeSize(transfer.dtype);
    std::byte* to = addresses[transfer.to];
    if (transfer.from.size() == 1) {
      transfer.box.Copy(addresses[transfer.from[0]], to, size, slice.begin, slice.end);
      continue;
    }
    // Groups larger than this are reduced part by part, each onto what the parts before gave.
    constexpr size_t kPart = 64;
    const std::byte* sources[kPart + 1];
    transfer.box.ForRuns(slice.begin, slice.end, [&](int64_t from_offset, int64_t to_offset, int64_t count) {
      for (size_t next = 0; next < transfer.from.size();) {
        size_t n = 0;
        if (next > 0) sources[n++] = to + (to_offset - from_offset) * size;
        for (size_t k = 0; k < kPart && next < transfer.from.size(); ++k) {
          sources[n++] = addresses[transfer.from[next++]];
        }
        Reduce(transfer.op, transfer.dtype, to + to_offset * size, {sources, n}, from_offset, count);
      }
    });
  }
}

}  // namespace meshwork
