// ---- r[m,n] = the sum over k of a_of(m, k) b_of(k, n), for a tile of kM x kN results from first_m, first_n on, by 256
// threads. A thread has 4 x 4 results of one of kSlices parts of the sums; parts are added in their order. by_k: neighbours
// in memory are neighbours along k. `tiles` takes max(kK (kM + kN + 8), kSlices > 1 ? 4096 : 0) numbers.
template <int kM, int kN, int kK, int kSlices, bool a_by_k, bool b_by_k, typename T, typename Index, typename A,
          typename B, typename Store>
__device__ inline void MultiplyTiled(Index m, Index n, Index k, Index first_m, Index first_n, T* tiles, const A& a_of,
                                     const B& b_of, const Store& store) {
  T *const a_tile = tiles, *const b_tile = tiles + kK * (kM + 4);
  const int thread = (int)threadIdx.x, columns = kN / 4, of_slice = 256 / kSlices;
  const int slice = thread / of_slice, ty = thread % of_slice / columns * 4, tx = thread % columns * 4;
  T sums[4][4];
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) sums[i][j] = 0;
  for (Index begin = 0; begin < k; begin += kK) {
#pragma unroll 4
    for (int i = thread; i < kK * kM; i += 256) {
      const int row = a_by_k ? i / kK : i % kM, x = a_by_k ? i % kK : i / kM;
      a_tile[x * (kM + 4) + row] = first_m + row < m && begin + x < k ? a_of(first_m + row, begin + x) : T(0);
    }
#pragma unroll 4
    for (int i = thread; i < kK * kN; i += 256) {
      const int column = b_by_k ? i / kK : i % kN, x = b_by_k ? i % kK : i / kN;
      b_tile[x * (kN + 4) + column] = first_n + column < n && begin + x < k ? b_of(begin + x, first_n + column) : T(0);
    }
    __syncthreads();
#pragma unroll 4
    for (int x = slice * (kK / kSlices); x < (slice + 1) * (kK / kSlices); ++x) {
      T a[4], b[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) a[i] = a_tile[x * (kM + 4) + ty + i];
#pragma unroll
      for (int j = 0; j < 4; ++j) b[j] = b_tile[x * (kN + 4) + tx + j];
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) sums[i][j] = MultiplyAdd(a[i], b[j], sums[i][j]);
    }
    __syncthreads();
  }
  if (kSlices == 1) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j)
        if (first_m + ty + i < m && first_n + tx + j < n) store(first_m + ty + i, first_n + tx + j, sums[i][j]);
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) tiles[slice * kM * kN + (ty + i) * kN + tx + j] = sums[i][j];
    __syncthreads();
    for (int i = thread; i < kM * kN; i += 256) {
      const Index row = first_m + i / kN, column = first_n + i % kN;
      T all = 0;
      for (int part = 0; part < kSlices; ++part) all += tiles[part * kM * kN + i];
      if (row < m && column < n) store(row, column, all);
    }
  }
}

// ---- Numbers of a matrix that is quantised in blocks of 32 (ops/kernels/blocks_of_32.h): number `e` of all that q has. No
// zeros: all are 0.
template <typename Index>
__device__ inline float ScaledNumber(float q, const unsigned short* scale, const unsigned short* zero, Index block) {
  return q * FromF16(scale[block]) + (zero == 0 ? 0.0f : FromF16(zero[block]));
}
template <typename Index>
__device__ inline float QuantizedNumber(const signed char* q, const unsigned short* scale, const unsigned short* zero,
                                        Index e) {
  return ScaledNumber((float)q[e], scale, zero, e / 32);
}
template <typename Index>
__device__ inline float QuantizedNumber(const unsigned char* q, const unsigned short* scale, const unsigned short* zero,
                                        Index e) {
  const unsigned both = q[e / 32 * 16 + e % 16];
  return ScaledNumber((float)(e % 32 < 16 ? both & 15 : both >> 4), scale, zero, e / 32);
}
