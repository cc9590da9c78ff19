// As attention.cuh, with products by the ordinary units and weights in shared memory.

// ---- Attention in tiles of any type and any head dims, by 128 threads: thread t has rows t / 8 + 16 i and
// columns t % 8 + 8 j.

// sums[i][j] += own row i times row j of 32 others from others_begin on. `shared` takes (kRows + 32) * 36 numbers.
template <int kRows, typename T, typename S, typename Load>
__device__ inline void DotRows(T (&sums)[kRows / 16][4], const HeadRows<S>& own, const HeadRows<S>& others,
                               int others_begin, int columns, T* shared, const Load& load) {
  const int thread = (int)threadIdx.x, ty = thread / 8, tx = thread % 8;
  for (int begin = 0; begin < columns; begin += 32) {
    __syncthreads();
    for (int i = thread; i < (kRows + 32) * 32; i += 128) {
      const int at = i / 32, column = i % 32, row = at < kRows ? at : others_begin + at - kRows;
      const HeadRows<S>& from = at < kRows ? own : others;
      const bool is_there = row < from.rows && begin + column < columns;
      shared[at * 36 + column] = is_there ? load(from.first[row * from.stride + begin + column]) : T(0);
    }
    __syncthreads();
#pragma unroll 4
    for (int x = 0; x < 32; ++x) {
      T of_own[kRows / 16], of_others[4];
#pragma unroll
      for (int i = 0; i < kRows / 16; ++i) of_own[i] = shared[(ty + 16 * i) * 36 + x];
#pragma unroll
      for (int j = 0; j < 4; ++j) of_others[j] = shared[(kRows + tx + 8 * j) * 36 + x];
#pragma unroll
      for (int i = 0; i < kRows / 16; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) sums[i][j] = MultiplyAdd(of_own[i], of_others[j], sums[i][j]);
    }
  }
}

// sums[i][j] += over 32 others that sees(i, other) says: weights[own row][other] times column first + t % 8 + 8 j of the
// other. The weights' rows take 36 numbers; `shared` takes 32 * 68. Begins with a barrier.
template <int kRows, typename T, typename S, typename Load, typename Sees>
__device__ inline void AddWeighted(T (&sums)[kRows / 16][8], const T* weights, const HeadRows<S>& others,
                                   int others_begin, int first, int columns, T* shared, const Load& load,
                                   const Sees& sees) {
  const int thread = (int)threadIdx.x, ty = thread / 8, tx = thread % 8;
  __syncthreads();
  for (int i = thread; i < 32 * 64; i += 128) {
    const int row = others_begin + i / 64, column = first + i % 64;
    const bool is_there = row < others.rows && column < columns;
    shared[i / 64 * 68 + i % 64] = is_there ? load(others.first[row * others.stride + column]) : T(0);
  }
  __syncthreads();
#pragma unroll 2
  for (int k = 0; k < 32; ++k) {
    T x[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) x[j] = shared[k * 68 + tx + 8 * j];
#pragma unroll
    for (int i = 0; i < kRows / 16; ++i) {
      if (!sees(i, k)) continue;
      const T weight = weights[(ty + 16 * i) * 36 + k];
#pragma unroll
      for (int j = 0; j < 8; ++j) sums[i][j] = MultiplyAdd(weight, x[j], sums[i][j]);
    }
  }
}

// The results of kRows queries and the logarithms of their denominators. Query i sees keys before limits[i].
// `shared` takes max((kRows + 32) * 36, 32 * 68) numbers, `weights` kRows * 36.
template <int kRows, typename T, typename S, typename Load, typename Store>
__device__ inline void AttendRows(const HeadRows<S>& q, HeadRows<S> k, HeadRows<S> v, int d, int e, const int* limits,
                                  S* out, long long out_stride, T* log_sums, int log_stride, T scale, T* shared,
                                  T* weights, const Load& load, const Store& store) {
  const int ty = (int)threadIdx.x / 8, tx = (int)threadIdx.x % 8;
  const T least = Limits<T>::Least();
  int most = 0, limit[kRows / 16];
  for (int i = 0; i < kRows; ++i) most = limits[i] > most ? limits[i] : most;
  for (int i = 0; i < kRows / 16; ++i) limit[i] = limits[ty + 16 * i];
  k.rows = k.rows < most ? k.rows : most;
  v.rows = k.rows;
  for (int first = 0; first == 0 || first < e; first += 64) {
    T sums[kRows / 16][8] = {}, largest[kRows / 16], total[kRows / 16] = {};
    for (int i = 0; i < kRows / 16; ++i) largest[i] = least;
    for (int begin = 0; begin < most; begin += 32) {
      T scores[kRows / 16][4] = {};
      __syncthreads();
      DotRows<kRows>(scores, q, k, begin, d, shared, load);
#pragma unroll
      for (int i = 0; i < kRows / 16; ++i) {
        T now = largest[i];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          scores[i][j] = begin + tx + 8 * j < limit[i] ? scores[i][j] * scale : least;
          now = Larger(now, scores[i][j]);
        }
        for (int by = 1; by < 8; by *= 2) now = Larger(now, __shfl_xor_sync(0xffffffffu, now, by));
        const T shift = now == least ? T(0) : now, factor = Exp(largest[i] - shift);
        largest[i] = now;
        T sum = 0;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const T share = Exp(scores[i][j] - shift);
          sum += share;
          weights[(ty + 16 * i) * 36 + tx + 8 * j] = share;
        }
        total[i] = total[i] * factor + sum;
#pragma unroll
        for (int j = 0; j < 8; ++j) sums[i][j] *= factor;
      }
      AddWeighted<kRows>(sums, weights, v, begin, first, e, shared, load,
                         [&](int i, int key) { return begin + key < limit[i]; });
    }
    for (int i = 0; i < kRows / 16; ++i) {
      T all = total[i];
      for (int by = 1; by < 8; by *= 2) all += __shfl_xor_sync(0xffffffffu, all, by);
      const T part = all == 0 ? T(0) : 1 / all;
      const int row = ty + 16 * i;
      if (row >= q.rows) continue;
      if (first == 0 && tx == 0) log_sums[(long long)row * log_stride] = largest[i] + Log(all);
      for (int j = 0; j < 8; ++j)
        if (first + tx + 8 * j < e) out[row * out_stride + first + tx + 8 * j] = store(sums[i][j] * part);
    }
  }
}

// What a query has besides its rows. It sees the keys before `limit`.
template <typename T> struct HeadFacts {
  int limit;
  T log_sum, shift;
};
// Gradients of kRows rows: of queries (own0 = q, own1 = the gradient of the result, others k and v), or of_keys and values
// (own0 = k, own1 = v, others q and the gradient). Goes through the others [others_begin, end) of kMembers heads, which
// follow each other. facts_of(i, member): of query i, which counts in the tensor, as own_first does. `weights`
// takes kRows * 36 numbers, twice if of_keys; `facts` 32.
template <int kRows, bool of_keys, int kMembers, typename T, typename S, typename FactsOf, typename Load,
          typename Store>
__device__ inline void AttentionGradRows(const HeadRows<S>& own0, const HeadRows<S>& own1,
                                         const HeadRows<S>& all_others0, const HeadRows<S>& all_others1, int d, int e,
                                         int own_first, int others_begin, int end, const FactsOf& facts_of, S* grad0,
                                         long long stride0, S* grad1, long long stride1, T scale, T* shared, T* weights,
                                         HeadFacts<T>* facts, const Load& load, const Store& store) {
  const int ty = (int)threadIdx.x / 8, tx = (int)threadIdx.x % 8, columns = of_keys && e > d ? e : d;
  HeadFacts<T> own_facts[kRows / 16] = {};
  if (!of_keys)
    for (int i = 0; i < kRows / 16; ++i) own_facts[i] = facts_of(own_first + ty + 16 * i, 0);
  for (int first = 0; first < columns; first += 64) {
    T sums0[kRows / 16][8] = {}, sums1[kRows / 16][8] = {};
    for (int begin = others_begin, member = 0; begin < end && member < kMembers;) {
      const HeadRows<S> others0 = OfMember(all_others0, member * d), others1 = OfMember(all_others1, member * e);
      T scores[kRows / 16][4] = {}, slopes[kRows / 16][4] = {};
      __syncthreads();
      if (of_keys) {
        if ((int)threadIdx.x < 32) facts[threadIdx.x] = facts_of(begin + (int)threadIdx.x, member);
        __syncthreads();
      }
      DotRows<kRows>(scores, own0, others0, begin, d, shared, load);
      DotRows<kRows>(slopes, own1, others1, begin, e, shared, load);
      const auto sees = [&](int i, int other) {
        return of_keys ? own_first + ty + 16 * i < facts[other].limit : begin + other < own_facts[i].limit;
      };
#pragma unroll
      for (int i = 0; i < kRows / 16; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const HeadFacts<T> query = of_keys ? facts[tx + 8 * j] : own_facts[i];
          const T share = Exp(scores[i][j] * scale - query.log_sum);
          const int at = (ty + 16 * i) * 36 + tx + 8 * j;
          weights[at] = share * (slopes[i][j] - query.shift) * scale;
          if (of_keys) weights[kRows * 36 + at] = share;
        }
      AddWeighted<kRows>(sums0, weights, others0, begin, first, d, shared, load, sees);
      if (of_keys) AddWeighted<kRows>(sums1, weights + kRows * 36, others1, begin, first, e, shared, load, sees);
      begin += 32;
      if (begin >= end && member + 1 < kMembers) {
        begin = others_begin;
        ++member;
      }
    }
    for (int i = 0; i < kRows / 16; ++i) {
      const int row = ty + 16 * i;
      if (row >= own0.rows) continue;
      for (int j = 0; j < 8; ++j) {
        const int column = first + tx + 8 * j;
        if (column < d) grad0[row * stride0 + column] = store(sums0[i][j]);
        if (of_keys && column < e) grad1[row * stride1 + column] = store(sums1[i][j]);
      }
    }
  }
}
