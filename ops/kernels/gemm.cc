#include "ops/kernels/gemm.h"

#include <cblas.h>
#include <dnnl.h>

#include <algorithm>

#include "base/status.h"

namespace meshwork {
namespace {

CBLAS_TRANSPOSE Op(bool transpose) { return transpose ? CblasTrans : CblasNoTrans; }

}  // namespace

void Gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const float* a, const float* b,
          float* c) {
  if (m == 0 || n == 0) return;
  if (k == 0) return static_cast<void>(std::fill_n(c, m * n, 0.0f));
  const int64_t lda = transpose_a ? m : k, ldb = transpose_b ? k : n;
  const dnnl_status_t status =
      dnnl_sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', m, n, k, 1.0f, a, lda, b, ldb, 0.0f, c, n);
  MESHWORK_CHECK(status == dnnl_success, "dnnl_sgemm [{},{},{}]", m, n, k);
}

void Gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const double* a,
          const double* b, double* c) {
  if (m == 0 || n == 0) return;
  if (k == 0) return static_cast<void>(std::fill_n(c, m * n, 0.0));
  const int64_t lda = transpose_a ? m : k, ldb = transpose_b ? k : n;
  cblas_dgemm(CblasRowMajor, Op(transpose_a), Op(transpose_b), static_cast<blasint>(m),
              static_cast<blasint>(n), static_cast<blasint>(k), 1.0, a, static_cast<blasint>(lda), b,
              static_cast<blasint>(ldb), 0.0, c, static_cast<blasint>(n));
}

}  // namespace meshwork
