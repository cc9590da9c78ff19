// Batcher, "Sorting networks and their applications" (1968): bitonic sorts.

// ---- Orders, by 256 threads: the first `kept` of `count` elements, in the order of the result. value_of(i): element i.
// Of equal elements the one of the lower index comes first. kSize, a power of 2, takes all elements, or twice `kept`;
// `values` and `at` have kSize. stored(i, at): element `at` is the i-th of the order.
template <int kSize, bool descending, typename T, typename Index, typename ValueOf, typename Store>
__device__ inline void FirstInOrder(Index count, Index kept, T* values, Index* at, const ValueOf& value_of,
                                    const Store& stored) {
  const int thread = (int)threadIdx.x;
  int filled = 0;
  // Of more elements than kSize, each round leaves the better half.
  for (Index next = 0; next < count;) {
    for (int i = filled + thread; i < kSize; i += 256) {
      const Index which = next + i - filled;
      values[i] = which < count ? value_of(which) : T(0);
      at[i] = which;
    }
    next += kSize - filled;
    filled = kSize / 2;
    __syncthreads();
    for (int run = 2; run <= kSize; run *= 2)
      for (int step = run / 2; step > 0; step /= 2) {
        for (int pair = thread; pair < kSize / 2; pair += 256) {
          const int i = pair / step * 2 * step + pair % step, j = i + step;
          const T a = values[i], b = values[j];
          const Index at_a = at[i], at_b = at[j];
          const bool is_below = descending ? SortsBelow(a, b) : SortsBelow(b, a);
          const bool is_above = descending ? SortsBelow(b, a) : SortsBelow(a, b);
          // Whether b comes first; what lies behind `count` comes last.
          const bool swaps = at_b < count && (at_a >= count || is_below || (!is_above && at_b < at_a));
          if (swaps == ((i & run) == 0)) {
            values[i] = b;
            values[j] = a;
            at[i] = at_b;
            at[j] = at_a;
          }
        }
        __syncthreads();
      }
  }
  for (Index i = thread; i < kept; i += 256) stored(i, at[i]);
}
