#include "meshwork/ops/kernels/blas/gemm.h"

#include <cblas.h>
#include <dnnl.h>

#include <algorithm>
#include <new>

#include "meshwork/base/status.h"
#include "meshwork/ops/kernels/blas/held_signals.h"
#include "meshwork/ops/kernels/blas/library_threads.h"
#include "meshwork/ops/kernels/long_sum.h"

namespace meshwork {
namespace {

CBLAS_TRANSPOSE Op(bool transpose) { return transpose ? CblasTrans : CblasNoTrans; }

// c = beta c + op(a) · op(b). REQUIRES: no size is zero.
void Multiply(const GemmShape& s, const float* a, const float* b, float beta, float* c) {
  ReserveForOneDnn();
  const HeldSignals held(s.k);
  const dnnl_status_t status = dnnl_sgemm(s.transpose_a ? 'T' : 'N', s.transpose_b ? 'T' : 'N', s.m, s.n, s.k,
                                          1.0f, a, s.lda, b, s.ldb, beta, c, s.ldc);
  if (status == dnnl_out_of_memory) throw std::bad_alloc();  // the executor makes a status of it
  MESHWORK_CHECK(status == dnnl_success, "dnnl_sgemm [{},{},{}]", s.m, s.n, s.k);
}
void Multiply(const GemmShape& s, const double* a, const double* b, double beta, double* c) {
  ReserveForOpenBlas();
  cblas_dgemm(CblasRowMajor, Op(s.transpose_a), Op(s.transpose_b), static_cast<blasint>(s.m),
              static_cast<blasint>(s.n), static_cast<blasint>(s.k), 1.0, a, static_cast<blasint>(s.lda), b,
              static_cast<blasint>(s.ldb), beta, c, static_cast<blasint>(s.ldc));
}

template <typename T>
void Zero(const GemmShape& s, T* c) {
  for (int64_t i = 0; i < s.m; ++i) std::fill_n(c + i * s.ldc, s.n, T(0.0f));
}

template <typename T>
void GemmOf(const GemmShape& s, std::span<const GemmTerm> terms, const T* a, const T* b, T* c) {
  if (s.m == 0 || s.n == 0) return;
  if (s.k == 0 || terms.empty()) return s.accumulate ? void() : Zero(s, c);
  T beta = s.accumulate ? 1 : 0;
  for (const GemmTerm& term : terms) {
    Multiply(s, a + term.a, b + term.b, beta, c);
    beta = 1;
  }
}

// ---- Long sums.

bool IsOfVector(const GemmShape& s) { return s.m == 1 || s.n == 1; }

// The most products of a sum that the library may add up in one call. For a matrix it adds them in blocks of some
// hundreds; for a vector whose other operand lies along k, in the lanes of a register; for other vectors, one by one.
int64_t LongestCall(const GemmShape& s) {
  if (!IsOfVector(s)) return 32 * kTermsOfPart;
  const bool lies_along_k = s.m == 1 ? s.transpose_b : !s.transpose_a;
  return lies_along_k ? 16 * kTermsOfPart : kTermsOfPart;
}

// The number of products that a call for k products counts as. A call with few products counts as more, because it adds
// a sum to the result, too.
int64_t LengthOf(const GemmShape& s, int64_t k) { return std::max(k, LongestCall(s) / kTermsOfPart); }

// Tiles whose sums in double are a megabyte, with little to pack per product; vectors are read in long pieces.
constexpr int64_t kLongTileM = 256, kLongTileN = 512, kLongVector = 1 << 16;

// The LongSum of the tile's elements; calls count as `length` in all.
LongSum LongSumOf(const GemmShape& tile, int64_t length) {
  const int64_t longest = LongestCall(tile);
  return {length > longest ? ThreadSums(tile.m * tile.n) : nullptr, tile.m, tile.n, longest};
}

void MultiplyInParts(const GemmShape& tile, std::span<const GemmTerm> terms, const float* a, const float* b,
                     float* c) {
  LongSum sum = LongSumOf(tile, std::ssize(terms) * LengthOf(tile, tile.k));
  GemmShape part = tile;
  if (tile.accumulate) sum.Begins(0, c, tile.ldc);
  for (const GemmTerm& term : terms) {
    for (int64_t k = 0; k < tile.k; k += part.k) {
      part.k = std::min(tile.k - k, LongestCall(tile));
      const float beta = sum.Begins(LengthOf(tile, part.k), c, tile.ldc) ? 0 : 1;
      Multiply(part, a + term.a + k * (tile.transpose_a ? tile.lda : 1),
               b + term.b + k * (tile.transpose_b ? 1 : tile.ldb), beta, c);
    }
  }
  sum.Finish(c, tile.ldc);
}

void LongGemm(const GemmShape& s, std::span<const GemmTerm> terms, const float* a, const float* b, float* c) {
  const int64_t tile_m = IsOfVector(s) ? kLongVector : kLongTileM,
                tile_n = IsOfVector(s) ? kLongVector : kLongTileN;
  for (int64_t i = 0; i < s.m; i += tile_m) {
    for (int64_t j = 0; j < s.n; j += tile_n) {
      GemmShape tile = s;
      tile.m = std::min(tile_m, s.m - i);
      tile.n = std::min(tile_n, s.n - j);
      MultiplyInParts(tile, terms, a + i * (s.transpose_a ? 1 : s.lda), b + j * (s.transpose_b ? s.ldb : 1),
                      c + i * s.ldc + j);
    }
  }
}

// ---- bf16.

constexpr int64_t kTileM = 128, kTileN = 256, kTileK = 256;

// Half a megabyte that stays in the L2 cache: what is converted and summed of one tile.
struct Tiles {
  alignas(64) float a[kTileM * kTileK];
  alignas(64) float b[kTileK * kTileN];
  alignas(64) float c[kTileM * kTileN];
};
thread_local Tiles tiles;

// Rows [row, row + rows) and columns [column, …) of a matrix with `stride` elements a row.
template <typename To, typename From>
void CopyTile(const From* from, int64_t from_stride, To* to, int64_t to_stride, int64_t rows,
              int64_t columns) {
  for (int64_t i = 0; i < rows; ++i) {
    const From* source = from + i * from_stride;
    To* target = to + i * to_stride;
    for (int64_t j = 0; j < columns; ++j) target[j] = static_cast<To>(source[j]);
  }
}

// tiles.c += op(a) · op(b) of the parts that tile.m and tile.n name, one tile along k after the other.
void AddTerm(const GemmShape& tile, const BFloat16* a, const BFloat16* b, LongSum& sum) {
  for (int64_t k = 0; k < tile.k; k += kTileK) {
    GemmShape s = tile;
    s.k = std::min(kTileK, tile.k - k);
    s.lda = s.transpose_a ? s.m : s.k;
    s.ldb = s.transpose_b ? s.k : s.n;
    s.ldc = s.n;
    CopyTile(a + k * (s.transpose_a ? tile.lda : 1), tile.lda, tiles.a, s.lda, s.transpose_a ? s.k : s.m,
             s.transpose_a ? s.m : s.k);
    CopyTile(b + k * (s.transpose_b ? 1 : tile.ldb), tile.ldb, tiles.b, s.ldb, s.transpose_b ? s.n : s.k,
             s.transpose_b ? s.k : s.n);
    Multiply(s, tiles.a, tiles.b, sum.Begins(LengthOf(s, s.k), tiles.c, s.ldc) ? 0.0f : 1.0f, tiles.c);
  }
}

}  // namespace

void Gemm(const GemmShape& shape, std::span<const GemmTerm> terms, const float* a, const float* b, float* c) {
  if (std::ssize(terms) * LengthOf(shape, shape.k) > LongestCall(shape))
    return LongGemm(shape, terms, a, b, c);
  GemmOf(shape, terms, a, b, c);
}
void Gemm(const GemmShape& shape, std::span<const GemmTerm> terms, const double* a, const double* b,
          double* c) {
  GemmOf(shape, terms, a, b, c);
}

void Gemm(const GemmShape& s, std::span<const GemmTerm> terms, const BFloat16* a, const BFloat16* b,
          BFloat16* c) {
  if (s.k == 0 || terms.empty()) return Zero(s, c);
  for (int64_t i = 0; i < s.m; i += kTileM) {
    for (int64_t j = 0; j < s.n; j += kTileN) {
      GemmShape tile = s;
      tile.m = std::min(kTileM, s.m - i);
      tile.n = std::min(kTileN, s.n - j);
      const int64_t rest = tile.k % kTileK;
      const int64_t of_term =
          tile.k / kTileK * LengthOf(tile, kTileK) + (rest > 0 ? LengthOf(tile, rest) : 0);
      LongSum sum = LongSumOf(tile, std::ssize(terms) * of_term);
      for (const GemmTerm& term : terms)
        AddTerm(tile, a + term.a + i * (s.transpose_a ? 1 : s.lda),
                b + term.b + j * (s.transpose_b ? s.ldb : 1), sum);
      sum.Finish(tiles.c, tile.n);
      CopyTile(tiles.c, tile.n, c + i * s.ldc + j, s.ldc, tile.m, tile.n);
    }
  }
}

}  // namespace meshwork
