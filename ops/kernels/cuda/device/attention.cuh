// Dao, arXiv 2307.08691: scores of a tile stay in the registers that the next product takes them from.
//
// Of a pair that the query does not see, nothing is added, even if there are infinite or NaN elements
// (ops/kernels/blas/attention.h). A product adds 0 times the element, which is NaN: a block with such pairs that ends with sums
// that are not finite computes all its rows again, without tensor cores.

// ---- Attention by tensor cores. A block has 4 warps; a warp has 16 kTiles rows of its own and goes through
// the others, kOthers at a time, which all warps read from shared memory while the next ones are being copied. `shared`
// takes 2 kOthers (kD + kE + 16) elements, and what AttendRows<32> or AttentionGradRows<32> takes. Where all rows of a warp
// see all others of a tile, nothing is looked at twice: kIsCut is false.
typedef HeadRows<unsigned short> Bf16Rows;
__device__ inline Bf16Rows RowsFrom(const Bf16Rows& all, int begin) {
  return {all.first + begin * all.stride, all.stride, all.rows - begin};
}
struct LoadBf16 {
  __device__ float operator()(unsigned short x) const { return FromBf16(x); }
};
struct StoreBf16 {
  __device__ unsigned short operator()(float x) const { return ToBf16(x); }
};
template <typename T> __device__ inline T SumOfFour(T x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}
// The least and the largest number of a warp.
struct Bounds {
  int least, most;
};
__device__ inline Bounds BoundsOfWarp(Bounds own) {
#pragma unroll
  for (int by = 16; by > 0; by /= 2) {
    const int least = __shfl_xor_sync(0xffffffffu, own.least, by), most = __shfl_xor_sync(0xffffffffu, own.most, by);
    own.least = least < own.least ? least : own.least;
    own.most = most > own.most ? most : own.most;
  }
  return own;
}
// Of count numbers.
__device__ inline Bounds BoundsOf(const int* numbers, int count) {
  Bounds own = {0x7fffffff, 0};
  for (int i = (int)threadIdx.x % 32; i < count; i += 32) {
    own.least = numbers[i] < own.least ? numbers[i] : own.least;
    own.most = numbers[i] > own.most ? numbers[i] : own.most;
  }
  return BoundsOfWarp(own);
}
// Takes the keys of a tile into account, which begins at `begin`. Scores are scaled by scale2, which takes them to powers of 2.
template <bool kIsCut, int kD, int kE, int kTiles, int kOthers>
__device__ inline void AttendTile(const unsigned (&own)[kTiles][kD / 16][4], SharedPlace keys, int begin,
                                  const int (&limit)[kTiles][2], float scale2, float (&sums)[kTiles][kE / 8][4],
                                  float (&largest)[kTiles][2], float (&total)[kTiles][2]) {
  const int pair = (int)threadIdx.x % 4 * 2;
  const float least = (float)-Infinity();
  float scores[kTiles][kOthers / 8][4];
  Clear(scores);
  MultiplyByRows<kTiles, kD, kOthers>(scores, own, keys);
#pragma unroll
  for (int m = 0; m < kTiles; ++m)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float now = largest[m][r];
#pragma unroll
      for (int j = 0; j < kOthers / 8; ++j)
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          float& score = scores[m][j][2 * r + c];
          if (kIsCut) score = Chosen(begin + 8 * j + pair + c < limit[m][r], score, least);
          now = fmaxf(now, score);
        }
      now = fmaxf(now, __shfl_xor_sync(0xffffffffu, now, 1));
      now = fmaxf(now, __shfl_xor_sync(0xffffffffu, now, 2));
      const float shift = now == least ? 0 : now * scale2, factor = QuickExp2(largest[m][r] * scale2 - shift);
      largest[m][r] = now;
      float sum = 0;
#pragma unroll
      for (int j = 0; j < kOthers / 8; ++j)
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          float& score = scores[m][j][2 * r + c];
          score = QuickExp2(MultiplyAdd(score, scale2, -shift));
          sum += score;
        }
      total[m][r] = MultiplyAdd(total[m][r], factor, sum);
#pragma unroll
      for (int n = 0; n < kE / 8; ++n) {
        sums[m][n][2 * r] *= factor;
        sums[m][n][2 * r + 1] *= factor;
      }
    }
  AddWeightedRows<kTiles, kE, kOthers>(sums, scores, keys + kOthers * (kD + 8));
}

// The results of 64 kTiles queries and the logarithms of their denominators. Query i sees keys before limits[i].
template <int kD, int kE, int kTiles, int kOthers>
__device__ inline void AttendBf16(const Bf16Rows& q, const Bf16Rows& all_k, const Bf16Rows& all_v, const int* limits,
                                  unsigned short* out, long long out_stride, float* log_sums, int log_stride,
                                  float scale, unsigned short* shared, bool by_words) {
  const int kStage = kOthers * (kD + kE + 16);
  const int lane = (int)threadIdx.x % 32, first = (int)threadIdx.x / 32 * 16 * kTiles, pair = lane % 4 * 2;
  const float scale2 = scale * 1.44269504088896341f;
  const int most = BoundsOf(limits, 64 * kTiles).most;
  const Bounds of_warp = BoundsOf(limits + first, 16 * kTiles);
  const int rows = all_k.rows < most ? all_k.rows : most;
  const Bf16Rows k = {all_k.first, all_k.stride, rows}, v = {all_v.first, all_v.stride, rows};
  const SharedPlace stages = PlaceOf(shared);
  const auto copy = [&](int begin, int stage) {
    CopyRowsAhead<128, kOthers, kD>(stages + stage * kStage, k, begin, by_words);
    CopyRowsAhead<128, kOthers, kE>(stages + (stage * kStage + kOthers * (kD + 8)), v, begin, by_words);
  };
  if (most > 0) copy(0, 0);
  bool is_cut = false;
  unsigned own[kTiles][kD / 16][4];
  float sums[kTiles][kE / 8][4], largest[kTiles][2], total[kTiles][2];
  int limit[kTiles][2];
  Clear(sums);
#pragma unroll
  for (int m = 0; m < kTiles; ++m) {
    LoadRows<kD>(own[m], q, first + 16 * m, by_words);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      limit[m][r] = limits[first + 16 * m + lane / 4 + 8 * r];
      largest[m][r] = (float)-Infinity();
      total[m][r] = 0;
    }
  }
#pragma unroll 1
  for (int begin = 0, stage = 0; begin < most; begin += kOthers, stage ^= 1) {
    WaitForCopies();
    __syncthreads();
    if (begin + kOthers < most) copy(begin + kOthers, stage ^ 1);
    const SharedPlace keys = stages + stage * kStage;
    if (begin + kOthers <= of_warp.least) {
      AttendTile<false, kD, kE, kTiles, kOthers>(own, keys, begin, limit, scale2, sums, largest, total);
    } else if (begin < of_warp.most) {
      is_cut = true;
      AttendTile<true, kD, kE, kTiles, kOthers>(own, keys, begin, limit, scale2, sums, largest, total);
    }
  }
  if (__syncthreads_or(is_cut && !AreFinite(sums))) {
    float* const numbers = (float*)shared;
#pragma unroll 1
    for (int i = 0; i < 64 * kTiles && i < q.rows; i += 32)
      AttendRows<32>(RowsFrom(q, i), all_k, all_v, kD, kE, limits + i, out + i * out_stride, out_stride,
                     log_sums + (long long)i * log_stride, log_stride, scale, numbers, numbers + 64 * 36, LoadBf16(),
                     StoreBf16());
    return;
  }
#pragma unroll
  for (int m = 0; m < kTiles; ++m)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = first + 16 * m + lane / 4 + 8 * r;
      const float all = SumOfFour(total[m][r]), part = all == 0 ? 0 : 1 / all;
      if (row >= q.rows) continue;
      if (lane % 4 == 0) log_sums[(long long)row * log_stride] = largest[m][r] * scale + logf(all);
#pragma unroll
      for (int n = 0; n < kE / 8; ++n)
        StorePair(out + row * out_stride + 8 * n + pair,
                  PackedBf16(sums[m][n][2 * r] * part, sums[m][n][2 * r + 1] * part), by_words);
    }
}
