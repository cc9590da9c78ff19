#include "ops/kernels/gemm.h"

#include <cblas.h>
#include <dnnl.h>

#include <algorithm>

#include "base/status.h"

namespace meshwork {
namespace {

CBLAS_TRANSPOSE Op(bool transpose) { return transpose ? CblasTrans : CblasNoTrans; }

// c = beta c + op(a) · op(b), the rows of each `lda`, … elements apart. REQUIRES: no size is zero.
void Multiply(const GemmShape& s, const float* a, int64_t lda, const float* b, int64_t ldb, float beta,
              float* c, int64_t ldc) {
  const dnnl_status_t status = dnnl_sgemm(s.transpose_a ? 'T' : 'N', s.transpose_b ? 'T' : 'N', s.m, s.n, s.k,
                                          1.0f, a, lda, b, ldb, beta, c, ldc);
  MESHWORK_CHECK(status == dnnl_success, "dnnl_sgemm [{},{},{}]", s.m, s.n, s.k);
}
void Multiply(const GemmShape& s, const double* a, int64_t lda, const double* b, int64_t ldb, double beta,
              double* c, int64_t ldc) {
  cblas_dgemm(CblasRowMajor, Op(s.transpose_a), Op(s.transpose_b), static_cast<blasint>(s.m),
              static_cast<blasint>(s.n), static_cast<blasint>(s.k), 1.0, a, static_cast<blasint>(lda), b,
              static_cast<blasint>(ldb), beta, c, static_cast<blasint>(ldc));
}

// Terms that lie one behind the other along k are one product with a longer k.
GemmShape Joined(GemmShape shape) {
  if (shape.transpose_a && !shape.transpose_b) {
    shape.k *= shape.terms;
    shape.terms = std::min<int64_t>(shape.terms, 1);
  }
  return shape;
}

int64_t Lda(const GemmShape& s) { return s.transpose_a ? s.m : s.k; }
int64_t Ldb(const GemmShape& s) { return s.transpose_b ? s.k : s.n; }

template <typename T>
void GemmOf(const GemmShape& given, const T* a, const T* b, T* c) {
  const GemmShape s = Joined(given);
  if (s.m == 0 || s.n == 0) return;
  if (s.k == 0 || s.terms == 0) return static_cast<void>(std::fill_n(c, s.m * s.n, T(0)));
  for (int64_t t = 0; t < s.terms; ++t)
    Multiply(s, a + t * s.m * s.k, Lda(s), b + t * s.k * s.n, Ldb(s), t == 0 ? T(0) : T(1), c, s.n);
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

// tiles.c += op(a) · op(b) of the parts that s.m, s.n and s.k name, one tile along k after the other.
void AddTerm(const GemmShape& tile, int64_t k, const BFloat16* a, int64_t lda, const BFloat16* b, int64_t ldb,
             bool is_first) {
  for (int64_t k0 = 0; k0 < k; k0 += kTileK) {
    GemmShape s = tile;
    s.k = std::min(kTileK, k - k0);
    CopyTile(a + k0 * (s.transpose_a ? lda : 1), lda, tiles.a, Lda(s), s.transpose_a ? s.k : s.m,
             s.transpose_a ? s.m : s.k);
    CopyTile(b + k0 * (s.transpose_b ? 1 : ldb), ldb, tiles.b, Ldb(s), s.transpose_b ? s.n : s.k,
             s.transpose_b ? s.k : s.n);
    Multiply(s, tiles.a, Lda(s), tiles.b, Ldb(s), is_first && k0 == 0 ? 0.0f : 1.0f, tiles.c, s.n);
  }
}

}  // namespace

void Gemm(const GemmShape& shape, const float* a, const float* b, float* c) { GemmOf(shape, a, b, c); }
void Gemm(const GemmShape& shape, const double* a, const double* b, double* c) { GemmOf(shape, a, b, c); }

void Gemm(const GemmShape& shape, const BFloat16* a, const BFloat16* b, BFloat16* c) {
  const GemmShape s = Joined(shape);
  if (s.k == 0 || s.terms == 0) return static_cast<void>(std::fill_n(c, s.m * s.n, BFloat16(0.0f)));
  for (int64_t i = 0; i < s.m; i += kTileM) {
    for (int64_t j = 0; j < s.n; j += kTileN) {
      GemmShape tile = s;
      tile.m = std::min(kTileM, s.m - i);
      tile.n = std::min(kTileN, s.n - j);
      for (int64_t t = 0; t < s.terms; ++t)
        AddTerm(tile, s.k, a + t * s.m * s.k + i * (s.transpose_a ? 1 : s.k), Lda(s),
                b + t * s.k * s.n + j * (s.transpose_b ? s.k : 1), Ldb(s), t == 0);
      CopyTile(tiles.c, tile.n, c + i * s.n + j, s.n, tile.m, tile.n);
    }
  }
}

}  // namespace meshwork
