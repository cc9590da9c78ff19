#include "meshwork/kernels/cuda/prelude.h"

namespace meshwork::cuda {

// Dao, arXiv 2307.08691: scores of a tile stay in the registers that the next product takes them from.
//
// Of a pair that the query does not see, nothing is added, even if there are infinite or NaN elements
// (kernels/blas/attention.h). A tile of which some pairs are not seen leaves such elements out; a block that has met one
// computes all its rows again, without tensor cores.
std::string_view AttentionText() {
  return R"(// ---- Attention by tensor cores. A block has 4 warps; a warp has 16 kTiles rows of its own and goes through
// the others, kOthers at a time, which all warps read from shared memory while the next ones are being copied. `shared`
// takes 2 kOthers (kD + kE + 16) elements, and what AttendRows<32> or AttentionGradRows<32> takes.
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
// The results of 64 kTiles queries and the logarithms of their denominators. Query i sees keys before limits[i].
template <int kD, int kE, int kTiles, int kOthers>
__device__ inline void AttendBf16(const Bf16Rows& q, const Bf16Rows& all_k, const Bf16Rows& all_v, const int* limits, unsigned short* out,
                                  long long out_stride, float* log_sums, int log_stride, float scale,
                                  unsigned short* shared, bool by_words) {
  const int kStage = kOthers * (kD + kE + 16);
  const int lane = (int)threadIdx.x % 32, first = (int)threadIdx.x / 32 * 16 * kTiles, pair = lane % 4 * 2;
  const float least = (float)-Infinity(), scale2 = scale * 1.44269504088896341f;
  int most = 0, warp_most = 0, warp_least = 0x7fffffff;
  for (int i = 0; i < 64 * kTiles; ++i) most = limits[i] > most ? limits[i] : most;
  for (int i = first; i < first + 16 * kTiles; ++i) {
    warp_most = limits[i] > warp_most ? limits[i] : warp_most;
    warp_least = limits[i] < warp_least ? limits[i] : warp_least;
  }
  const int rows = all_k.rows < most ? all_k.rows : most;
  const Bf16Rows k = {all_k.first, all_k.stride, rows}, v = {all_v.first, all_v.stride, rows};
  bool found = false;
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
      largest[m][r] = least;
      total[m][r] = 0;
    }
  }
  if (most > 0) {
    CopyRowsAhead<128, kOthers, kD>(shared, k, 0, by_words);
    CopyRowsAhead<128, kOthers, kE>(shared + kOthers * (kD + 8), v, 0, by_words);
  }
  for (int begin = 0, stage = 0; begin < most; begin += kOthers, stage ^= 1) {
    WaitForCopies();
    __syncthreads();
    if (begin + kOthers < most) {
      unsigned short* const next = shared + (stage ^ 1) * kStage;
      CopyRowsAhead<128, kOthers, kD>(next, k, begin + kOthers, by_words);
      CopyRowsAhead<128, kOthers, kE>(next + kOthers * (kD + 8), v, begin + kOthers, by_words);
    }
    if (begin >= warp_most) continue;
    const unsigned short *const keys = shared + stage * kStage, *const values = keys + kOthers * (kD + 8);
    float scores[kTiles][kOthers / 8][4];
    Clear(scores);
    MultiplyByRows<kTiles, kD, kOthers>(scores, own, keys);
    const bool is_cut = begin + kOthers > warp_least;
    if (is_cut) {
#pragma unroll
      for (int m = 0; m < kTiles; ++m)
#pragma unroll
        for (int j = 0; j < kOthers / 8; ++j)
#pragma unroll
          for (int c = 0; c < 4; ++c)
            scores[m][j][c] = Chosen(begin + 8 * j + pair + c % 2 < limit[m][c / 2], scores[m][j][c], least);
    }
#pragma unroll
    for (int m = 0; m < kTiles; ++m)
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float now = largest[m][r];
#pragma unroll
        for (int j = 0; j < kOthers / 8; ++j)
          now = fmaxf(now, fmaxf(scores[m][j][2 * r], scores[m][j][2 * r + 1]));
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
    AddWeightedRows<kTiles, kE, kOthers>(sums, scores, values, is_cut, found);
  }
  if (__syncthreads_or(found)) {
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

// The share of a key by its score, and the gradient of the scaled score by that of the share. query.log_sum: in units of
// log 2.
__device__ inline void ShareAndSlope(float& score, float& of_share, const HeadFacts<float>& query, bool sees, float scale2) {
  const float share = sees ? QuickExp2(MultiplyAdd(score, scale2, -query.log_sum)) : 0;
  of_share = sees ? share * (of_share - query.shift) : 0;
  score = share;
}

// Gradients of 64 rows: of queries (of_keys = false; own0 = q, own1 = the gradient of the result, others k and v), or of
// keys and values (own0 = k, own1 = v, others q and the gradient). Goes through the others
// [first_other, end).
// facts_of(i): of query i, which counts in the tensor, as own_first does.
template <int kD, int kE, int kOthers, bool of_keys, typename FactsOf>
__device__ inline void AttentionGradBf16(const Bf16Rows& own0, const Bf16Rows& own1, const Bf16Rows& others0,
                                         const Bf16Rows& others1, int own_first, int first_other, int end,
                                         const FactsOf& facts_of, unsigned short* grad0, long long stride0,
                                         unsigned short* grad1, long long stride1, float scale,
                                         unsigned short* shared, HeadFacts<float>* facts, bool by_words) {
  const int kStage = kOthers * (kD + kE + 16);
  const int lane = (int)threadIdx.x % 32, first = (int)threadIdx.x / 32 * 16, pair = lane % 4 * 2;
  const float scale2 = scale * 1.44269504088896341f;
  unsigned of0[1][kD / 16][4], of1[1][kE / 16][4];
  LoadRows<kD>(of0[0], own0, first, by_words);
  LoadRows<kE>(of1[0], own1, first, by_words);
  float sums0[1][kD / 8][4], sums1[1][kE / 8][4];
  Clear(sums0);
  Clear(sums1);
  const auto scaled_facts_of = [&](int query) -> HeadFacts<float> {
    const HeadFacts<float> natural = facts_of(query);
    return {natural.limit, natural.log_sum * 1.44269504088896341f, natural.shift};
  };
  HeadFacts<float> own_facts[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    own_facts[r] = {0, 0, 0};
    if (!of_keys) own_facts[r] = scaled_facts_of(own_first + first + lane / 4 + 8 * r);
  }
  const auto copy = [&](int from, int stage) {
    CopyRowsAhead<128, kOthers, kD>(shared + stage * kStage, others0, from, by_words);
    CopyRowsAhead<128, kOthers, kE>(shared + stage * kStage + kOthers * (kD + 8), others1, from, by_words);
    if (of_keys && (int)threadIdx.x < kOthers)
      facts[stage * kOthers + (int)threadIdx.x] = scaled_facts_of(from + (int)threadIdx.x);
  };
  bool found = false;
  if (first_other < end) copy(first_other, 0);
  for (int begin = first_other, stage = 0; begin < end; begin += kOthers, stage ^= 1) {
    WaitForCopies();
    __syncthreads();
    if (begin + kOthers < end) copy(begin + kOthers, stage ^ 1);
    const unsigned short *const tile0 = shared + stage * kStage, *const tile1 = tile0 + kOthers * (kD + 8);
    const HeadFacts<float>* const queries = facts + stage * kOthers;
    float scores[1][kOthers / 8][4], slopes[1][kOthers / 8][4];
    Clear(scores);
    Clear(slopes);
    MultiplyByRows<1, kD, kOthers>(scores, of0, tile0);
    MultiplyByRows<1, kE, kOthers>(slopes, of1, tile1);
    bool is_cut = false;
#pragma unroll
    for (int j = 0; j < kOthers / 8; ++j)
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const int other = 8 * j + pair + c % 2, own = own_first + first + lane / 4 + 8 * (c / 2);
        const HeadFacts<float> query = of_keys ? queries[other] : own_facts[c / 2];
        const bool sees = (of_keys ? own : begin + other) < query.limit;
        is_cut = is_cut || !sees;
        ShareAndSlope(scores[0][j][c], slopes[0][j][c], query, sees, scale2);
      }
    // Lanes hold elements for each other.
    is_cut = __ballot_sync(0xffffffffu, is_cut) != 0;
    AddWeightedRows<1, kD, kOthers>(sums0, slopes, tile0, is_cut, found);
    if (of_keys) AddWeightedRows<1, kE, kOthers>(sums1, scores, tile1, is_cut, found);
  }
  if (__syncthreads_or(found)) {
    float* const numbers = (float*)shared;
#pragma unroll 1
    for (int i = 0; i < 64 && i < own0.rows; i += 32)
      AttentionGradRows<32, of_keys>(RowsFrom(own0, i), RowsFrom(own1, i), others0, others1, kD, kE, own_first + i,
                                     first_other, end, facts_of, grad0 + i * stride0, stride0,
                                     of_keys ? grad1 + i * stride1 : grad1, stride1, scale, numbers, numbers + 64 * 36,
                                     facts, LoadBf16(), StoreBf16());
    return;
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = first + lane / 4 + 8 * r;
    if (row >= own0.rows) continue;
#pragma unroll
    for (int n = 0; n < kD / 8; ++n)
      StorePair(grad0 + row * stride0 + 8 * n + pair,
                PackedBf16(sums0[0][n][2 * r] * scale, sums0[0][n][2 * r + 1] * scale), by_words);
#pragma unroll
    for (int n = 0; n < kE / 8; ++n)
      if (of_keys) StorePair(grad1 + row * stride1 + 8 * n + pair, PackedBf16(sums1[0][n][2 * r], sums1[0][n][2 * r + 1]), by_words);
  }
}
)";
}

}  // namespace meshwork::cuda
