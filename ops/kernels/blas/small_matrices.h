// Decompositions of small matrices by plain loops, row by row, in the memory of the result; blocked_qr.h and linalg.cc
// decompose larger matrices. The loops vectorise and give the same bits on every CPU.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "meshwork/ops/kernels/elementwise.h"

namespace meshwork {

// Row by row: l[i,:] = (x[i,:] - what earlier columns took) / diagonal. `l` may be `x`; rows of both are `columns`
// elements apart. Returns whether x is positive definite; if not, l is of no use.
template <typename T>
bool FactorCholesky(const T* x, int64_t n, int64_t columns, T* l) {
  for (int64_t i = 0; i < n; ++i) {
    T* row = l + i * columns;
    for (int64_t j = 0; j < n; ++j) row[j] = j <= i ? x[i * columns + j] : T(0);
    for (int64_t j = 0; j <= i; ++j) {
      T sum = row[j];
      for (int64_t k = 0; k < j; ++k) sum -= row[k] * l[j * columns + k];
      if (j < i) row[j] = sum / l[j * columns + j];
      else if (sum > 0) row[i] = std::sqrt(sum);
      else return false;
    }
  }
  return true;
}

struct Triangle {
  bool lower, transposed, unit;
};

// x = op(a)⁻¹ b in place of b. Computes the rows of x in the order in which they become known; subtracts each from the
// rows that depend on it.
template <typename T>
void SolveInPlace(const T* a, int64_t n, int64_t columns, const Triangle& t, T* x) {
  const bool forward = t.lower != t.transposed;
  for (int64_t step = 0; step < n; ++step) {
    const int64_t i = forward ? step : n - 1 - step;
    T* row = x + i * columns;
    for (int64_t before = 0; before < step; ++before) {
      const int64_t k = forward ? before : n - 1 - before;
      const T factor = t.transposed ? a[k * n + i] : a[i * n + k];
      const T* known = x + k * columns;
      MESHWORK_INDEPENDENT
      for (int64_t c = 0; c < columns; ++c) row[c] -= factor * known[c];
    }
    if (t.unit) continue;
    const T diagonal = a[i * n + i];
    MESHWORK_INDEPENDENT
    for (int64_t c = 0; c < columns; ++c) row[c] /= diagonal;
  }
}

// (1 - tau v vᵀ) applied from the left to columns [begin, end) of w, rows [top, m); v is column `at` of `vs`
// below its row `top`, where it is 1.
template <typename T>
void Reflect(const T* vs, int64_t vs_columns, int64_t at, int64_t top, int64_t m, T tau, T* w,
             int64_t columns, int64_t begin, int64_t end) {
  constexpr int64_t kTile = 256;
  std::array<T, kTile> dots;
  for (int64_t first = begin; first < end; first += kTile) {
    const int64_t count = std::min(kTile, end - first);
    std::copy_n(w + top * columns + first, count, dots.begin());
    for (int64_t i = top + 1; i < m; ++i) {
      const T v = vs[i * vs_columns + at];
      MESHWORK_INDEPENDENT
      for (int64_t c = 0; c < count; ++c) dots[c] += v * w[i * columns + first + c];
    }
    for (int64_t i = top; i < m; ++i) {
      const T v = tau * (i == top ? T(1) : vs[i * vs_columns + at]);
      MESHWORK_INDEPENDENT
      for (int64_t c = 0; c < count; ++c) w[i * columns + first + c] -= v * dots[c];
    }
  }
}

// tau of the reflection that MakeReflection left in column j: 2 / vᵀv; 0 where v is 0 but for its 1.
template <typename T>
T TauOf(const T* w, int64_t m, int64_t columns, int64_t j) {
  T sum = 1;
  bool is_zero = true;
  for (int64_t i = j + 1; i < m; ++i) {
    const T v = w[i * columns + j];
    sum += v * v;
    is_zero = is_zero && v == 0;
  }
  return is_zero ? T(0) : 2 / sum;
}

// Makes column j of w, from row j on, (beta, v): the reflection that takes it to (beta, 0, …), with the signs
// of LAPACK's larfg, which its users know. Returns tau.
template <typename T>
T MakeReflection(T* w, int64_t m, int64_t columns, int64_t j) {
  T largest = 0;
  for (int64_t i = j; i < m; ++i) largest = std::max(largest, std::fabs(w[i * columns + j]));
  if (largest == 0) return 0;
  const T alpha = w[j * columns + j];
  T sum = 0;
  for (int64_t i = j; i < m; ++i) sum += (w[i * columns + j] / largest) * (w[i * columns + j] / largest);
  const T beta = -std::copysign(largest * std::sqrt(sum), alpha);
  for (int64_t i = j + 1; i < m; ++i) w[i * columns + j] /= alpha - beta;
  const T tau = TauOf(w, m, columns, j);
  w[j * columns + j] = tau == 0 ? alpha : beta;
  return tau;
}

// Householder's reflections, in the memory of the result that is as large as x: q of m >= n, r otherwise.
template <typename T>
void Decompose(const T* x, int64_t m, int64_t n, T* q, T* r) {
  const int64_t k = std::min(m, n);
  T* w = m >= n ? q : r;
  std::copy_n(x, m * n, w);
  for (int64_t j = 0; j < k; ++j)
    if (const T tau = MakeReflection(w, m, n, j); tau != 0) Reflect(w, n, j, j, m, tau, w, n, j + 1, n);
  if (m >= n) {
    for (int64_t i = 0; i < k; ++i)
      for (int64_t c = 0; c < n; ++c) r[i * n + c] = c >= i ? w[i * n + c] : T(0);
  } else {
    for (int64_t i = 0; i < m; ++i) std::copy_n(w + i * n, m, q + i * m);
    for (int64_t i = 0; i < m; ++i) std::fill_n(r + i * n, i, T(0));
  }
  // The first k columns of the reflections' product, from the last on: column j becomes its own reflection of
  // the unit vector.
  for (int64_t j = k; j-- > 0;) {
    const T tau = TauOf(q, m, k, j);
    for (int64_t i = 0; i < j; ++i) q[i * k + j] = 0;
    if (tau != 0) Reflect(q, k, j, j, m, tau, q, k, j + 1, k);
    for (int64_t i = j + 1; i < m; ++i) q[i * k + j] *= -tau;
    q[j * k + j] = 1 - tau;
  }
}

}  // namespace meshwork
