#include "meshwork/ops/kernels/blas/quantized_rows.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "meshwork/base/cpu_dispatch.h"
#include "meshwork/ops/kernels/blocks_of_32.h"
#include "meshwork/ops/kernels/long_sum.h"

#ifdef MESHWORK_CPU_LEVELS
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace meshwork {
namespace {

constexpr int kLanes = 8;
// Blocks of a part: each lane adds up four products of a block.
constexpr int64_t kBlocksOfPart = kTermsOfPart * kLanes / kBlockNumbers;

// The numbers of n blocks. Calls of one kind only: kBytes is a constant, so that the loops vectorise.
template <int kBytes>
void DequantizeBlocks(const QuantizedRows& w, int64_t n, float* to) {
  const std::byte* q = w.q;
  for (int64_t b = 0; b < n; ++b, q += kBytes, to += kBlockNumbers) {
    const float d = w.scale[b], z = w.zero == nullptr ? 0.0f : static_cast<float>(w.zero[b]);
    if constexpr (kBytes == kBlockNumbers) {
      for (int i = 0; i < kBytes; ++i) to[i] = static_cast<float>(static_cast<int8_t>(q[i])) * d + z;
    } else {
      for (int i = 0; i < kBytes; ++i) {
        to[i] = static_cast<float>(static_cast<int>(q[i]) & 15) * d + z;
        to[i + kBytes] = static_cast<float>(static_cast<int>(q[i]) >> 4) * d + z;
      }
    }
  }
}

// ---- One row of x, as whole numbers.

bool AllFinite(const float* x, int64_t n) {
  bool finite = true;
  RunOnThisCpu([&finite, x, n] {
    int all = 1;
    for (int64_t i = 0; i < n; ++i) all &= std::abs(x[i]) <= std::numeric_limits<float>::max() ? 1 : 0;
    finite = all != 0;
  });
  return finite;
}

constexpr int kBitsOfWhole = 30;
constexpr int kLeastExponent = -90;  // so that a scale times that of a quantised block is exact

// Blocks of a row as whole numbers of up to 30 bits in two halves: x[i] is about scale (65536 high[i] + low[i]), with a
// scale for each block, a power of two. Exact for a number that is not below 1/64 of the largest of its block, otherwise
// wrong by less than 2^-29 of that, or 2^-119. Products of halves with numbers of a quantised block are added up exactly.
struct WholeNumbers {
  // x: `blocks` blocks of finite numbers, at most kBlocksOfPart.
  void Set(const float* x, int64_t blocks);

  alignas(32) int16_t high[kBlocksOfPart * kBlockNumbers];
  alignas(32) int16_t low[kBlocksOfPart * kBlockNumbers];
  float scale[kBlocksOfPart];
  float sum[kBlocksOfPart];  // of the numbers of a block
};

// 2^e, for -126 <= e <= 127.
float PowerOfTwo(int e) { return std::bit_cast<float>(static_cast<uint32_t>(e + 127) << 23); }

void WholeNumbers::Set(const float* x, int64_t blocks) {
  RunOnThisCpu([this, x, blocks] {
    for (int64_t b = 0; b < blocks; ++b) {
      const float* const numbers = x + b * kBlockNumbers;
      uint32_t largest = 0;  // floats without a sign are ordered as their bits are
      for (int i = 0; i < kBlockNumbers; ++i)
        largest = std::max(largest, std::bit_cast<uint32_t>(numbers[i]) & 0x7fffffffu);
      // All are below 2^e.
      const int e = std::max(static_cast<int>(largest >> 23) - 126, kLeastExponent);
      const float to_whole = PowerOfTwo(kBitsOfWhole - e);
      int32_t highs = 0, lows = 0;
      for (int i = 0; i < kBlockNumbers; ++i) {
        const auto whole = static_cast<int32_t>(numbers[i] * to_whole);
        const int32_t upper = (whole + 32768) >> 16, lower = whole - upper * 65536;
        high[b * kBlockNumbers + i] = static_cast<int16_t>(upper);
        low[b * kBlockNumbers + i] = static_cast<int16_t>(lower);
        highs += upper;
        lows += lower;
      }
      scale[b] = PowerOfTwo(e - kBitsOfWhole);
      sum[b] = static_cast<float>(scale[b] * (65536.0 * highs + lows));
    }
  });
}

// ---- Plain loops.

// In the order of SumOfLanes.
float SumOf(const float (&lanes)[kLanes]) {
  float halves[kLanes / 2];
  for (int l = 0; l < kLanes / 2; ++l) halves[l] = lanes[l] + lanes[l + kLanes / 2];
  return (halves[0] + halves[2]) + (halves[1] + halves[3]);
}

// The product of x with `n` floats, a multiple of kLanes.
float PlainProduct(const float* w, int64_t n, const float* x) {
  float lanes[kLanes] = {};
  for (int64_t i = 0; i < n; i += kLanes)
    for (int l = 0; l < kLanes; ++l) lanes[l] = std::fma(x[i + l], w[i + l], lanes[l]);
  return SumOf(lanes);
}

// Several rows of x.
template <int kBytes>
void AddProductsByLoops(const QuantizedRows& w, int64_t columns, const float* x, int64_t rows, double* sums) {
  RunOnThisCpu([=] {
    alignas(64) float numbers[kBlocksOfPart * kBlockNumbers];
    for (int64_t c = 0; c < columns; ++c) {
      for (int64_t b = 0; b < w.blocks; b += kBlocksOfPart) {
        const int64_t n = std::min(kBlocksOfPart, w.blocks - b), first = c * w.blocks + b;
        const QuantizedRows part = {w.q + first * kBytes, w.scale + first,
                                    w.zero == nullptr ? nullptr : w.zero + first, n, kBytes};
        DequantizeBlocks<kBytes>(part, n, numbers);
        for (int64_t r = 0; r < rows; ++r)
          sums[r * columns + c] +=
              PlainProduct(numbers, n * kBlockNumbers, x + (r * w.blocks + b) * kBlockNumbers);
      }
    }
  });
}

// The whole number of a block that stands at i.
template <int kBytes>
int WholeAt(const std::byte* q, int i) {
  if constexpr (kBytes == kBlockNumbers) return static_cast<int8_t>(q[i]);
  else return i < kBytes ? static_cast<int>(q[i]) & 15 : static_cast<int>(q[i - kBytes]) >> 4;
}

// A part of one row of x, as AddPartByFma has it.
template <int kBytes>
void AddPartByLoops(const QuantizedRows& w, int64_t columns, const WholeNumbers& x, int64_t begin, int64_t n,
                    double* sums) {
  RunOnThisCpu([=, &x] {
    for (int64_t c = 0; c < columns; ++c) {
      const int64_t first = c * w.blocks + begin;
      float high[kLanes] = {}, low[kLanes] = {}, zeros = 0;
      for (int64_t b = 0; b < n; ++b) {
        const std::byte* const q = w.q + (first + b) * kBytes;
        const int16_t *const highs = x.high + b * kBlockNumbers, *const lows = x.low + b * kBlockNumbers;
        const float scale = x.scale[b] * static_cast<float>(w.scale[first + b]);
        for (int l = 0; l < kLanes; ++l) {
          int high_sum = 0, low_sum = 0;
          for (const int i : {2 * l, 2 * l + 1, 2 * l + 16, 2 * l + 17}) {
            high_sum += WholeAt<kBytes>(q, i) * highs[i];
            low_sum += WholeAt<kBytes>(q, i) * lows[i];
          }
          high[l] = std::fma(static_cast<float>(high_sum), scale, high[l]);
          low[l] = std::fma(static_cast<float>(low_sum), scale, low[l]);
        }
        if (w.zero != nullptr) zeros = std::fma(static_cast<float>(w.zero[first + b]), x.sum[b], zeros);
      }
      for (int l = 0; l < kLanes; ++l) low[l] = std::fma(high[l], 65536.0f, low[l]);
      sums[c] += static_cast<double>(SumOf(low)) + zeros;
    }
  });
}

// ---- AVX2, FMA and F16C.

#ifdef MESHWORK_CPU_LEVELS

#define MESHWORK_FMA __attribute__((target(MESHWORK_CPU_V3 ",fma,f16c")))

// __builtin_cpu_supports of clang 14 does not know it.
bool HasF16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

bool HasFma() {
  static const bool has = __builtin_cpu_supports("fma") && HasF16c();
  return has && UsedCpuLevel() >= CpuLevel::kV3;
}

// to[0, 8) = the halves, times the factors `by` if there are any.
MESHWORK_FMA inline void LoadHalves8(const Float16* from, const float* by, float* to) {
  const __m256 x = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  _mm256_storeu_ps(to, by == nullptr ? x : _mm256_mul_ps(x, _mm256_loadu_ps(by)));
}

// The same of n; zeros if there are no halves.
MESHWORK_FMA inline void LoadHalves(const Float16* from, int64_t n, const float* by, float* to) {
  if (from == nullptr) {
    std::fill_n(to, n, 0.0f);
    return;
  }
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) LoadHalves8(from + i, by == nullptr ? nullptr : by + i, to + i);
  if (i < n && n >= 8) {  // some once more
    LoadHalves8(from + n - 8, by == nullptr ? nullptr : by + n - 8, to + n - 8);
    return;
  }
  for (; i < n; ++i) to[i] = _cvtsh_ss(from[i].bits) * (by == nullptr ? 1.0f : by[i]);
}

MESHWORK_FMA inline __m128i LoadBytes(const std::byte* from) {
  return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
}
MESHWORK_FMA inline __m256 NumbersOf(__m256i whole, __m256 scale, __m256 zero) {
  return _mm256_fmadd_ps(_mm256_cvtepi32_ps(whole), scale, zero);
}

// The 32 numbers of a block, 8 at a time.
template <int kBytes>
MESHWORK_FMA inline void LoadBlock(const std::byte* q, __m256 scale, __m256 zero, __m256 (&numbers)[4]) {
  if constexpr (kBytes == kBlockNumbers) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i)
      numbers[i] = NumbersOf(_mm256_cvtepi8_epi32(LoadBytes(q + 8 * i)), scale, zero);
  } else {
    const __m256i first = _mm256_cvtepu8_epi32(LoadBytes(q)), second = _mm256_cvtepu8_epi32(LoadBytes(q + 8));
    const __m256i low = _mm256_set1_epi32(15);
    numbers[0] = NumbersOf(_mm256_and_si256(first, low), scale, zero);
    numbers[1] = NumbersOf(_mm256_and_si256(second, low), scale, zero);
    numbers[2] = NumbersOf(_mm256_srli_epi32(first, 4), scale, zero);
    numbers[3] = NumbersOf(_mm256_srli_epi32(second, 4), scale, zero);
  }
}

// Has the memory come of what is multiplied two tiles of kColumns rows later: a CPU does not foresee reads of several rows in
// turn. Block `b` of the part from block `begin` on is about to be multiplied. (g++ leaves out calls of functions that only
// do this, unless they are inlined.)
template <int kBytes, int kColumns>
__attribute__((always_inline)) inline void PrefetchLaterTile(const QuantizedRows& w, int64_t begin,
                                                             int64_t b) {
  if constexpr (kColumns > 1) {
    // In kColumns steps, as many blocks of each row.
    const int64_t row = 2 * kColumns + b % kColumns, block = begin + b / kColumns * kColumns;
    const auto* const from = reinterpret_cast<const char*>(w.q) + (row * w.blocks + block) * kBytes;
    for (int byte = 0; byte < kColumns * kBytes; byte += 64) _mm_prefetch(from + byte, _MM_HINT_T0);
  }
}

MESHWORK_FMA inline float SumOfLanes(__m256 x) {
  __m128 sum = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  sum = _mm_add_ps(sum, _mm_movehl_ps(sum, sum));
  return _mm_cvtss_f32(_mm_add_ss(sum, _mm_movehdup_ps(sum)));
}

// How many rows of the matrix are multiplied at a time with kRows rows of x: as many as keep about 8 sums in registers,
// which hide the latency of an addition.
template <int kRows>
inline constexpr int kColumnsAtOnce = kRows == 1   ? 4
                                      : kRows <= 4 ? 2
                                                   : 1;

// sums: [kRows, ..], rows `stride` apart, += the products with kColumns rows, a part of a row after the other.
template <int kBytes, int kRows, int kColumns>
MESHWORK_FMA void AddTile(const QuantizedRows& w, const float* x, double* sums, int64_t stride) {
  float scales[kColumns][kBlocksOfPart], zeros[kColumns][kBlocksOfPart];
  for (int64_t begin = 0; begin < w.blocks; begin += kBlocksOfPart) {
    const int64_t n = std::min(kBlocksOfPart, w.blocks - begin);
    for (int c = 0; c < kColumns; ++c) {
      LoadHalves(w.scale + c * w.blocks + begin, n, nullptr, scales[c]);
      LoadHalves(w.zero == nullptr ? nullptr : w.zero + c * w.blocks + begin, n, nullptr, zeros[c]);
    }
    __m256 lanes[kRows][kColumns];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
      for (int c = 0; c < kColumns; ++c) lanes[r][c] = _mm256_setzero_ps();
    for (int64_t b = 0; b < n; ++b) {
      PrefetchLaterTile<kBytes, kColumns>(w, begin, b);
      const float* const x_block = x + (begin + b) * kBlockNumbers;
#pragma GCC unroll 4
      for (int c = 0; c < kColumns; ++c) {
        __m256 numbers[4];
        LoadBlock<kBytes>(w.q + (c * w.blocks + begin + b) * kBytes, _mm256_broadcast_ss(&scales[c][b]),
                          _mm256_broadcast_ss(&zeros[c][b]), numbers);
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i)
#pragma GCC unroll 8
          for (int r = 0; r < kRows; ++r)
            lanes[r][c] =
                _mm256_fmadd_ps(_mm256_loadu_ps(x_block + r * w.blocks * kBlockNumbers + i * kLanes),
                                numbers[i], lanes[r][c]);
      }
    }
    for (int r = 0; r < kRows; ++r)
      for (int c = 0; c < kColumns; ++c) sums[r * stride + c] += SumOfLanes(lanes[r][c]);
  }
}

template <int kBytes, int kRows>
void AddProductsByFma(const QuantizedRows& w, int64_t columns, const float* x, double* sums) {
  constexpr int kColumns = kColumnsAtOnce<kRows>;
  int64_t c = 0;
  for (; c + kColumns <= columns; c += kColumns)
    AddTile<kBytes, kRows, kColumns>(w.From(c), x, sums + c, columns);
  for (; c < columns; ++c) AddTile<kBytes, kRows, 1>(w.From(c), x, sums + c, columns);
}

// The 32 whole numbers of a block.
template <int kBytes>
MESHWORK_FMA inline void LoadWhole(const std::byte* q, __m256i (&whole)[2]) {
  const auto* const bytes = reinterpret_cast<const __m128i*>(q);
  if constexpr (kBytes == kBlockNumbers) {
    whole[0] = _mm256_cvtepi8_epi16(_mm_loadu_si128(bytes));
    whole[1] = _mm256_cvtepi8_epi16(_mm_loadu_si128(bytes + 1));
  } else {
    const __m256i both = _mm256_cvtepu8_epi16(_mm_loadu_si128(bytes));
    whole[0] = _mm256_and_si256(both, _mm256_set1_epi16(15));
    whole[1] = _mm256_srli_epi16(both, 4);
  }
}

// The products with 32 halves, added up in 8 lanes.
MESHWORK_FMA inline __m256 ProductsOfHalves(const __m256i (&whole)[2], const int16_t* halves) {
  const auto* const x = reinterpret_cast<const __m256i*>(halves);
  return _mm256_cvtepi32_ps(_mm256_add_epi32(_mm256_madd_epi16(whole[0], _mm256_load_si256(x)),
                                             _mm256_madd_epi16(whole[1], _mm256_load_si256(x + 1))));
}

// sums: [kColumns] += the products of x, blocks [begin, begin + n) of a row, with these of kColumns rows. 1.3 times as fast
// as with floats: a block of whole numbers takes fewer instructions than one that becomes floats first.
template <int kBytes, int kColumns>
MESHWORK_FMA void AddPartTile(const QuantizedRows& w, const WholeNumbers& x, int64_t begin, int64_t n,
                              double* sums) {
  float scales[kColumns][kBlocksOfPart], zeros[kColumns][kBlocksOfPart];
  const std::byte* q[kColumns];
  __m256 high[kColumns], low[kColumns];
  __m128 sum_of_zeros[kColumns];
#pragma GCC unroll 4
  for (int c = 0; c < kColumns; ++c) {
    const int64_t first = c * w.blocks + begin;
    q[c] = w.q + first * kBytes;
    LoadHalves(w.scale + first, n, x.scale, scales[c]);
    LoadHalves(w.zero == nullptr ? nullptr : w.zero + first, n, nullptr, zeros[c]);
    high[c] = low[c] = _mm256_setzero_ps();
    sum_of_zeros[c] = _mm_setzero_ps();
  }
  for (int64_t b = 0; b < n; ++b) {
    const int16_t *const highs = x.high + b * kBlockNumbers, *const lows = x.low + b * kBlockNumbers;
    PrefetchLaterTile<kBytes, kColumns>(w, begin, b);
    const __m128 sum = _mm_load_ss(&x.sum[b]);
#pragma GCC unroll 4
    for (int c = 0; c < kColumns; ++c) {
      const __m256 scale = _mm256_broadcast_ss(&scales[c][b]);
      __m256i whole[2];
      LoadWhole<kBytes>(q[c] + b * kBytes, whole);
      high[c] = _mm256_fmadd_ps(ProductsOfHalves(whole, highs), scale, high[c]);
      low[c] = _mm256_fmadd_ps(ProductsOfHalves(whole, lows), scale, low[c]);
      sum_of_zeros[c] = _mm_fmadd_ss(_mm_load_ss(&zeros[c][b]), sum, sum_of_zeros[c]);
    }
  }
#pragma GCC unroll 4
  for (int c = 0; c < kColumns; ++c)
    sums[c] += static_cast<double>(SumOfLanes(_mm256_fmadd_ps(high[c], _mm256_set1_ps(65536.0f), low[c]))) +
               _mm_cvtss_f32(sum_of_zeros[c]);
}

template <int kBytes>
void AddPartByFma(const QuantizedRows& w, int64_t columns, const WholeNumbers& x, int64_t begin, int64_t n,
                  double* sums) {
  constexpr int kColumns = 4;
  int64_t c = 0;
  for (; c + kColumns <= columns; c += kColumns)
    AddPartTile<kBytes, kColumns>(w.From(c), x, begin, n, sums + c);
  for (; c < columns; ++c) AddPartTile<kBytes, 1>(w.From(c), x, begin, n, sums + c);
}

using AddProductsFunction = void (*)(const QuantizedRows& w, int64_t columns, const float* x, double* sums);

// By the number of rows of x less one.
template <int kBytes, size_t... kRows>
constexpr std::array<AddProductsFunction, sizeof...(kRows)> TilesOf(std::index_sequence<kRows...>) {
  return {AddProductsByFma<kBytes, static_cast<int>(kRows) + 1>...};
}

#endif  // MESHWORK_CPU_LEVELS

template <int kBytes>
void AddProductsOfRow(const QuantizedRows& w, int64_t columns, const float* x, double* sums) {
  WholeNumbers whole;
  for (int64_t begin = 0; begin < w.blocks; begin += kBlocksOfPart) {
    const int64_t n = std::min(kBlocksOfPart, w.blocks - begin);
    whole.Set(x + begin * kBlockNumbers, n);
#ifdef MESHWORK_CPU_LEVELS
    if (HasFma()) {
      AddPartByFma<kBytes>(w, columns, whole, begin, n, sums);
      continue;
    }
#endif
    AddPartByLoops<kBytes>(w, columns, whole, begin, n, sums);
  }
}

template <int kBytes>
void AddProductsOf(const QuantizedRows& w, int64_t columns, const float* x, int64_t rows, double* sums) {
  // Infinities and NaNs are no whole numbers.
  if (rows == 1 && AllFinite(x, w.blocks * kBlockNumbers))
    return AddProductsOfRow<kBytes>(w, columns, x, sums);
#ifdef MESHWORK_CPU_LEVELS
  static constexpr auto kTiles = TilesOf<kBytes>(std::make_index_sequence<kMostRowsOfX>());
  if (HasFma()) return kTiles[static_cast<size_t>(rows) - 1](w, columns, x, sums);
#endif
  AddProductsByLoops<kBytes>(w, columns, x, rows, sums);
}

}  // namespace

QuantizedRows QuantizedRows::From(int64_t row) const {
  const int64_t first = row * blocks;
  return {q + first * bytes, scale + first, zero == nullptr ? nullptr : zero + first, blocks, bytes};
}

void DequantizeRows(const QuantizedRows& w, int64_t rows, float* to) {
  RunOnThisCpu([&w, to, n = rows * w.blocks] {
    if (w.bytes == kBlockNumbers) DequantizeBlocks<kBlockNumbers>(w, n, to);
    else DequantizeBlocks<kBlockNumbers / 2>(w, n, to);
  });
}

void AddProducts(const QuantizedRows& w, int64_t columns, const float* x, int64_t rows, double* sums) {
  if (w.bytes == kBlockNumbers) AddProductsOf<kBlockNumbers>(w, columns, x, rows, sums);
  else AddProductsOf<kBlockNumbers / 2>(w, columns, x, rows, sums);
}

}  // namespace meshwork
