// Linear algebra, and Fourier transforms. Part of ops/ops.h, which says what holds for all ops.
#pragma once

#include <cstdint>

#include "meshwork/ir/graph.h"
#include "meshwork/ir/operand.h"

namespace meshwork {

// Linear algebra, of batches of f32 or f64 matrices […,m,n], each of which is whole on a device.
// The lower triangle l of x = l lᵀ; x: […,n,n]. Only the lower triangle of x is read, and only it has a
// gradient. NaN where x is not positive definite.
Value Cholesky(const Operand& x);
struct TriangularOptions {
  bool lower = true;           // which triangle of a is meant; the other one is not read
  bool transpose_a = false;    // op(a) is aᵀ
  bool unit_diagonal = false;  // the diagonal counts as 1 and is not read
};
// op(a)⁻¹ b; a: […,n,n], b: […,n,k]. A 0 on the diagonal gives infinities and NaN.
Value TriangularSolve(const Operand& a, const Operand& b, const TriangularOptions& options = {});
// x: […,m,n] = q r, with q: […,m,k], r: […,k,n], k the smaller of m and n; signs as LAPACK has them. The
// gradient needs an r whose first k columns are regular.
struct QrResult {
  Value q, r;
};
QrResult Qr(const Operand& x);
// The discrete Fourier transform along dim of re + i im, reals of one type: sum over j of x[j] exp(-2πi jk /
// n). `inverse`: with the other sign, divided by n. There is no complex dtype, so the two parts are separate
// values.
struct Complex {
  Value re, im;
};
Complex Fft(const Operand& re, const Operand& im, int64_t dim = -1, bool inverse = false);

}  // namespace meshwork
