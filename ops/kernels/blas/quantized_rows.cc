#include "meshwork/ops/kernels/blas/quantized_rows.h"

#include <algorithm>
#include <array>
#include <cmath>
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

// to[0, n) = the halves, or zeros if there are none.
MESHWORK_FMA void LoadHalves(const Float16* from, int64_t n, float* to) {
  if (from == nullptr) {
    std::fill_n(to, n, 0.0f);
    return;
  }
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
  for (; i < n; ++i) to[i] = _cvtsh_ss(from[i].bits);
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
      LoadHalves(w.scale + c * w.blocks + begin, n, scales[c]);
      LoadHalves(w.zero == nullptr ? nullptr : w.zero + c * w.blocks + begin, n, zeros[c]);
    }
    __m256 lanes[kRows][kColumns];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
      for (int c = 0; c < kColumns; ++c) lanes[r][c] = _mm256_setzero_ps();
    for (int64_t b = 0; b < n; ++b) {
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

using AddProductsFunction = void (*)(const QuantizedRows& w, int64_t columns, const float* x, double* sums);

// By the number of rows of x less one.
template <int kBytes, size_t... kRows>
constexpr std::array<AddProductsFunction, sizeof...(kRows)> TilesOf(std::index_sequence<kRows...>) {
  return {AddProductsByFma<kBytes, static_cast<int>(kRows) + 1>...};
}

#endif  // MESHWORK_CPU_LEVELS

template <int kBytes>
void AddProductsOf(const QuantizedRows& w, int64_t columns, const float* x, int64_t rows, double* sums) {
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
