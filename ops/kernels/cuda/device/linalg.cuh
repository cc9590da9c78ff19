// All threads of a block call these functions, and take the same branches around barriers: what these depend on is read from
// memory between two barriers.

// The sum, or the largest, of the threads' numbers, in halves; `shared` has room for one of each thread.
template <int threads, bool is_sum, typename T> __device__ inline T OfBlock(T mine, T* shared) {
  const int thread = (int)threadIdx.x;
  shared[thread] = mine;
  __syncthreads();
  for (int half = threads / 2; half > 0; half /= 2) {
    if (thread < half) {
      const T other = shared[thread + half];
      if (is_sum) shared[thread] += other;
      else if (shared[thread] < other) shared[thread] = other;
    }
    __syncthreads();
  }
  const T all = shared[0];
  __syncthreads();
  return all;
}
// Column by column: each takes its products off the columns behind it.
template <int threads, typename T, typename Index> __device__ inline void CholeskyFactor(const T* x, Index n, T* l) {
  const Index thread = (Index)threadIdx.x, lane = thread % 32, group = thread / 32, groups = threads / 32;
  for (Index e = thread; e < n * n; e += threads) l[e] = e % n <= e / n ? x[e] : T(0);
  __syncthreads();
  for (Index j = 0; j < n; ++j) {
    const T square = l[j * n + j];
    __syncthreads();
    if (!(square > 0)) {
      for (Index e = thread; e < n * n; e += threads) l[e] = (T)NotANumber();
      return;
    }
    const T root = Sqrt(square);
    for (Index i = j + thread; i < n; i += threads) l[i * n + j] = i == j ? root : l[i * n + j] / root;
    __syncthreads();
    for (Index i = j + 1 + group; i < n; i += groups) {
      const T factor = l[i * n + j];
      for (Index c = j + 1 + lane; c <= i; c += 32) l[i * n + c] -= factor * l[c * n + j];
    }
    __syncthreads();
  }
}
// Columns [first, first + lanes) of x = op(a)^-1 b: each row that is known is taken off those that need it.
template <int threads, int lanes, bool lower, bool transposed, bool unit, typename T, typename Index>
__device__ inline void SolveColumns(const T* a, const T* b, Index n, Index columns, Index first, T* x) {
  const bool forward = lower != transposed;
  const Index thread = (Index)threadIdx.x, column = first + thread % lanes, group = thread / lanes;
  const Index groups = threads / lanes;
  const bool has_column = column < columns;
  if (has_column)
    for (Index i = group; i < n; i += groups) x[i * columns + column] = b[i * columns + column];
  __syncthreads();
  for (Index step = 0; step < n; ++step) {
    const Index i = forward ? step : n - 1 - step;
    if (!unit && has_column && group == 0) x[i * columns + column] /= a[i * n + i];
    __syncthreads();
    if (has_column) {
      const T known = x[i * columns + column];
      for (Index other = step + 1 + group; other < n; other += groups) {
        const Index k = forward ? other : n - 1 - other;
        x[k * columns + column] -= (transposed ? a[i * n + k] : a[k * n + i]) * known;
      }
    }
    __syncthreads();
  }
}
// (1 - tau v v^T) from the left on columns [begin, end) of w, rows [top, m): 32 columns at a time, whose rows warps share out.
template <int threads, typename T, typename Index>
__device__ inline void Reflect(const T* vs, Index vs_columns, Index at, Index top, Index m, T tau, T* w, Index columns,
                               Index begin, Index end, T* shared) {
  const Index thread = (Index)threadIdx.x, lane = thread % 32, group = thread / 32, groups = threads / 32;
  for (Index first = begin; first < end; first += 32) {
    const Index c = first + lane;
    T dot = 0;
    if (c < end)
      for (Index i = top + 1 + group; i < m; i += groups) dot += vs[i * vs_columns + at] * w[i * columns + c];
    shared[thread] = dot;
    __syncthreads();
    T all = 0;
    if (c < end) {
      all = w[top * columns + c];
      for (Index g = 0; g < groups; ++g) all += shared[g * 32 + lane];
    }
    __syncthreads();
    if (c < end)
      for (Index i = top + group; i < m; i += groups)
        w[i * columns + c] -= tau * (i == top ? T(1) : vs[i * vs_columns + at]) * all;
  }
  __syncthreads();
}
template <int threads, typename T, typename Index>
__device__ inline T TauOf(const T* w, Index m, Index columns, Index j, T* shared) {
  T sum = 0, largest = 0;
  for (Index i = j + 1 + (Index)threadIdx.x; i < m; i += threads) {
    const T v = w[i * columns + j];
    sum += v * v;
    if (v != 0) largest = 1;
  }
  largest = OfBlock<threads, false>(largest, shared);
  sum = OfBlock<threads, true>(sum, shared);
  return largest == 0 ? T(0) : 2 / (1 + sum);
}
template <int threads, typename T, typename Index>
__device__ inline T MakeReflection(T* w, Index m, Index columns, Index j, T* shared) {
  const Index thread = (Index)threadIdx.x;
  T largest = 0, sum = 0;
  for (Index i = j + thread; i < m; i += threads)
    largest = largest < Absolute(w[i * columns + j]) ? Absolute(w[i * columns + j]) : largest;
  largest = OfBlock<threads, false>(largest, shared);
  if (largest == 0) return 0;
  const T alpha = w[j * columns + j];
  for (Index i = j + thread; i < m; i += threads)
    sum += (w[i * columns + j] / largest) * (w[i * columns + j] / largest);
  sum = OfBlock<threads, true>(sum, shared);
  const T beta = -CopySign(largest * Sqrt(sum), alpha);
  for (Index i = j + 1 + thread; i < m; i += threads) w[i * columns + j] /= alpha - beta;
  __syncthreads();
  const T tau = TauOf<threads>(w, m, columns, j, shared);
  if (thread == 0) w[j * columns + j] = tau == 0 ? alpha : beta;
  __syncthreads();
  return tau;
}
template <int threads, typename T, typename Index>
__device__ inline void Decompose(const T* x, Index m, Index n, T* q, T* r, T* shared) {
  const Index k = m < n ? m : n, thread = (Index)threadIdx.x;
  T* w = m >= n ? q : r;
  for (Index e = thread; e < m * n; e += threads) w[e] = x[e];
  __syncthreads();
  for (Index j = 0; j < k; ++j) {
    const T tau = MakeReflection<threads>(w, m, n, j, shared);
    if (tau != 0) Reflect<threads>(w, n, j, j, m, tau, w, n, j + 1, n, shared);
  }
  if (m >= n) {
    for (Index e = thread; e < n * n; e += threads) r[e] = e % n >= e / n ? w[e] : T(0);
  } else {
    for (Index e = thread; e < m * m; e += threads) q[e] = w[e / m * n + e % m];
    __syncthreads();
    for (Index e = thread; e < m * m; e += threads)
      if (e % m < e / m) r[e / m * n + e % m] = 0;
  }
  __syncthreads();
  for (Index j = k; j-- > 0;) {
    const T tau = TauOf<threads>(q, m, k, j, shared);
    for (Index i = thread; i < j; i += threads) q[i * k + j] = 0;
    if (tau != 0) Reflect<threads>(q, k, j, j, m, tau, q, k, j + 1, k, shared);
    for (Index i = j + 1 + thread; i < m; i += threads) q[i * k + j] *= -tau;
    if (thread == 0) q[j * k + j] = 1 - tau;
    __syncthreads();
  }
}
