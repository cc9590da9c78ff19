#include "meshwork/kernels/cuda/prelude.h"

namespace meshwork::cuda {

std::string_view LinalgText() {
  return R"(template <typename T, typename Index>
__device__ inline void CholeskyFactor(const T* x, Index n, T* l) {
  for (Index i = 0; i < n; ++i) {
    for (Index j = 0; j < n; ++j) l[i * n + j] = j <= i ? x[i * n + j] : T(0);
    for (Index j = 0; j <= i; ++j) {
      T sum = l[i * n + j];
      for (Index k = 0; k < j; ++k) sum -= l[i * n + k] * l[j * n + k];
      if (j < i) {
        l[i * n + j] = sum / l[j * n + j];
      } else if (sum > 0) {
        l[i * n + i] = Sqrt(sum);
      } else {
        for (Index k = 0; k < n * n; ++k) l[k] = (T)NotANumber();
        return;
      }
    }
  }
}
// One column of x = op(a)^-1 b, whose elements are `columns` apart.
template <bool lower, bool transposed, bool unit, typename T, typename Index>
__device__ inline void SolveColumn(const T* a, const T* b, Index n, Index columns, T* x) {
  const bool forward = lower != transposed;
  for (Index step = 0; step < n; ++step) {
    const Index i = forward ? step : n - 1 - step;
    T sum = b[i * columns];
    for (Index before = 0; before < step; ++before) {
      const Index k = forward ? before : n - 1 - before;
      sum -= (transposed ? a[k * n + i] : a[i * n + k]) * x[k * columns];
    }
    x[i * columns] = unit ? sum : sum / a[i * n + i];
  }
}
// (1 - tau v v^T) from the left on columns [begin, end) of w, rows [top, m).
template <typename T, typename Index>
__device__ inline void Reflect(const T* vs, Index vs_columns, Index at, Index top, Index m, T tau, T* w, Index columns,
                               Index begin, Index end) {
  for (Index c = begin; c < end; ++c) {
    T dot = w[top * columns + c];
    for (Index i = top + 1; i < m; ++i) dot += vs[i * vs_columns + at] * w[i * columns + c];
    for (Index i = top; i < m; ++i)
      w[i * columns + c] -= tau * (i == top ? T(1) : vs[i * vs_columns + at]) * dot;
  }
}
template <typename T, typename Index> __device__ inline T TauOf(const T* w, Index m, Index columns, Index j) {
  T sum = 1;
  bool is_zero = true;
  for (Index i = j + 1; i < m; ++i) {
    const T v = w[i * columns + j];
    sum += v * v;
    is_zero = is_zero && v == 0;
  }
  return is_zero ? T(0) : 2 / sum;
}
template <typename T, typename Index> __device__ inline T MakeReflection(T* w, Index m, Index columns, Index j) {
  T largest = 0;
  for (Index i = j; i < m; ++i) largest = largest < Absolute(w[i * columns + j]) ? Absolute(w[i * columns + j]) : largest;
  if (largest == 0) return 0;
  const T alpha = w[j * columns + j];
  T sum = 0;
  for (Index i = j; i < m; ++i) sum += (w[i * columns + j] / largest) * (w[i * columns + j] / largest);
  const T beta = -CopySign(largest * Sqrt(sum), alpha);
  for (Index i = j + 1; i < m; ++i) w[i * columns + j] /= alpha - beta;
  const T tau = TauOf(w, m, columns, j);
  w[j * columns + j] = tau == 0 ? alpha : beta;
  return tau;
}
template <typename T, typename Index> __device__ inline void Decompose(const T* x, Index m, Index n, T* q, T* r) {
  const Index k = m < n ? m : n;
  T* w = m >= n ? q : r;
  for (Index i = 0; i < m * n; ++i) w[i] = x[i];
  for (Index j = 0; j < k; ++j) {
    const T tau = MakeReflection(w, m, n, j);
    if (tau != 0) Reflect(w, n, j, j, m, tau, w, n, j + 1, n);
  }
  if (m >= n) {
    for (Index i = 0; i < k; ++i)
      for (Index c = 0; c < n; ++c) r[i * n + c] = c >= i ? w[i * n + c] : T(0);
  } else {
    for (Index i = 0; i < m; ++i)
      for (Index c = 0; c < m; ++c) q[i * m + c] = w[i * n + c];
    for (Index i = 0; i < m; ++i)
      for (Index c = 0; c < i; ++c) r[i * n + c] = 0;
  }
  for (Index j = k; j-- > 0;) {
    const T tau = TauOf(q, m, k, j);
    for (Index i = 0; i < j; ++i) q[i * k + j] = 0;
    if (tau != 0) Reflect(q, k, j, j, m, tau, q, k, j + 1, k);
    for (Index i = j + 1; i < m; ++i) q[i * k + j] *= -tau;
    q[j * k + j] = 1 - tau;
  }
}
)";
}

}  // namespace meshwork::cuda
