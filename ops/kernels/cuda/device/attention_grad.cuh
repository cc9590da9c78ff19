// As attention.cuh. Shares are made again from the log-sums of the result (Dao, arXiv 2307.08691, section 3.1.2); each
// gradient has a kernel that goes through the tiles in order, so that no sum depends on who comes first.

// ---- Gradients of attention by tensor cores.

// Takes a tile of others into account: all of them, or those that a limit in `limits` or `queries` says. Queries have
// log_sum in units of log 2; of the others of keys these are log_sum, shift and limit, kOthers of each.
template <bool kIsCut, bool of_keys, int kD, int kE, int kTiles, int kOthers, int kChunk>
__device__ inline void AttentionGradTile(const unsigned (&of0)[kTiles][kD / 16][4],
                                         const unsigned (&of1)[kTiles][kE / 16][4], SharedPlace tile0,
                                         SharedPlace tile1, int own, int begin,
                                         const HeadFacts<float> (&own_facts)[kTiles][2], const float* queries,
                                         float scale2, float (&sums0)[kTiles][kD / 8][4],
                                         float (&sums1)[kTiles][kE / 8][4]) {
  const int pair = (int)threadIdx.x % 4 * 2;
#pragma unroll
  for (int part = 0; part < kOthers; part += kChunk) {
    const SharedPlace part0 = tile0 + part * (kD + 8), part1 = tile1 + part * (kE + 8);
    float scores[kTiles][kChunk / 8][4], slopes[kTiles][kChunk / 8][4];
    Clear(scores);
    Clear(slopes);
    MultiplyByRows<kTiles, kD, kChunk>(scores, of0, part0);
    MultiplyByRows<kTiles, kE, kChunk>(slopes, of1, part1);
#pragma unroll
    for (int j = 0; j < kChunk / 8; ++j)
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const int other = part + 8 * j + pair + c;
        HeadFacts<float> query = {0, 0, 0};
        if (of_keys)
          query = {kIsCut ? __float_as_int(queries[2 * kOthers + other]) : 0, queries[other], queries[kOthers + other]};
#pragma unroll
        for (int m = 0; m < kTiles; ++m)
#pragma unroll
          for (int r = 0; r < 2; ++r) {
            if (!of_keys) query = own_facts[m][r];
            float &share = scores[m][j][2 * r + c], &slope = slopes[m][j][2 * r + c];
            share = QuickExp2(MultiplyAdd(share, scale2, -query.log_sum));
            slope = share * (slope - query.shift);
            if (kIsCut) {
              const bool sees = (of_keys ? own + 16 * m + 8 * r : begin + other) < query.limit;
              share = Chosen(sees, share, 0);
              slope = Chosen(sees, slope, 0);
            }
          }
      }
    AddWeightedRows<kTiles, kD, kChunk>(sums0, slopes, part0);
    if (of_keys) AddWeightedRows<kTiles, kE, kChunk>(sums1, scores, part1);
  }
}

// Gradients of 64 kTiles rows: of queries (of_keys = false; own0 = q, own1 = the gradient of the result, others k and v), or of
// keys and values (own0 = k, own1 = v, others q and the gradient). Goes through the others [first_other, end), of which
// kChunk at a time are in registers, of kMembers heads, which follow each other. facts_of(i, member): of query
// i, which counts in the tensor, as own_first does. `facts` takes 6 kOthers numbers if of_keys, and what AttentionGradRows
// takes.
template <int kD, int kE, int kTiles, int kOthers, int kChunk, bool of_keys, int kMembers, typename FactsOf>
__device__ inline void AttentionGradBf16(const Bf16Rows& own0, const Bf16Rows& own1, const Bf16Rows& others0,
                                         const Bf16Rows& others1, int own_first, int first_other, int end,
                                         const FactsOf& facts_of, unsigned short* grad0, long long stride0,
                                         unsigned short* grad1, long long stride1, float scale, unsigned short* shared,
                                         HeadFacts<float>* facts, bool by_words) {
  const int kStage = kOthers * (kD + kE + 16);
  const int thread = (int)threadIdx.x, lane = thread % 32, first = thread / 32 * 16 * kTiles, pair = lane % 4 * 2;
  const float scale2 = scale * 1.44269504088896341f;
  const SharedPlace stages = PlaceOf(shared);
  const auto copy = [&](int from, int member, int stage) {
    CopyRowsAhead<128, kOthers, kD>(stages + stage * kStage, OfMember(others0, member * kD), from, by_words);
    CopyRowsAhead<128, kOthers, kE>(stages + (stage * kStage + kOthers * (kD + 8)), OfMember(others1, member * kE),
                                    from, by_words);
  };
  const auto scaled_facts_of = [&](int query, int member) -> HeadFacts<float> {
    const HeadFacts<float> natural = facts_of(query, member);
    return {natural.limit, natural.log_sum * 1.44269504088896341f, natural.shift};
  };
  // Facts of the next tile are read before a tile and put into shared memory behind it.
  float* const numbers = (float*)facts;
  const bool has_facts = of_keys && thread < kOthers;
  const auto put = [&](const HeadFacts<float>& of, int stage) {
    float* const to = numbers + stage * 3 * kOthers + thread;
    to[0] = of.log_sum;
    to[kOthers] = of.shift;
    to[2 * kOthers] = __int_as_float(of.limit);
  };
  if (first_other < end) {
    copy(first_other, 0, 0);
    if (has_facts) put(scaled_facts_of(first_other + thread, 0), 0);
  }
  unsigned of0[kTiles][kD / 16][4], of1[kTiles][kE / 16][4];
  float sums0[kTiles][kD / 8][4], sums1[kTiles][kE / 8][4];
  HeadFacts<float> own_facts[kTiles][2];
  Bounds limits = {0x7fffffff, 0};
  Clear(sums0);
  Clear(sums1);
#pragma unroll
  for (int m = 0; m < kTiles; ++m) {
    LoadRows<kD>(of0[m], own0, first + 16 * m, by_words);
    LoadRows<kE>(of1[m], own1, first + 16 * m, by_words);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      own_facts[m][r] = {0, 0, 0};
      if (of_keys) continue;
      own_facts[m][r] = scaled_facts_of(own_first + first + 16 * m + lane / 4 + 8 * r, 0);
      limits.least = own_facts[m][r].limit < limits.least ? own_facts[m][r].limit : limits.least;
      limits.most = own_facts[m][r].limit > limits.most ? own_facts[m][r].limit : limits.most;
    }
  }
  if (!of_keys) limits = BoundsOfWarp(limits);
  const int own = own_first + first;
  bool is_cut = false;
#pragma unroll 1
  for (int begin = first_other, member = 0, stage = 0; begin < end; stage ^= 1) {
    WaitForCopies();
    __syncthreads();
    int next_begin = begin + kOthers;
    if (next_begin >= end && member + 1 < kMembers) {
      next_begin = first_other;
      ++member;
    }
    const bool is_last = next_begin >= end;
    HeadFacts<float> next = {0, 0, 0};
    if (!is_last) {
      copy(next_begin, member, stage ^ 1);
      if (has_facts) next = scaled_facts_of(next_begin + thread, member);
    }
    const SharedPlace tile0 = stages + stage * kStage, tile1 = tile0 + kOthers * (kD + 8);
    const float* const queries = numbers + stage * 3 * kOthers;
    bool sees_all = begin + kOthers <= limits.least, sees = begin < limits.most;
    if (of_keys) {
      sees_all = true;
      sees = false;
#pragma unroll
      for (int i = 0; i < kOthers; i += 32) {
        const int limit =
            lane + i < kOthers ? __float_as_int(queries[2 * kOthers + lane + i]) : __float_as_int(queries[2 * kOthers]);
        sees_all = sees_all && own + 16 * kTiles <= limit;
        sees = sees || own < limit;
      }
      sees_all = __ballot_sync(0xffffffffu, sees_all) == 0xffffffffu;
      sees = __ballot_sync(0xffffffffu, sees) != 0;
    }
    if (sees_all) {
      AttentionGradTile<false, of_keys, kD, kE, kTiles, kOthers, kChunk>(of0, of1, tile0, tile1, own + lane / 4, begin,
                                                                         own_facts, queries, scale2, sums0, sums1);
    } else if (sees) {
      is_cut = true;
      AttentionGradTile<true, of_keys, kD, kE, kTiles, kOthers, kChunk>(of0, of1, tile0, tile1, own + lane / 4, begin,
                                                                        own_facts, queries, scale2, sums0, sums1);
    }
    if (has_facts && !is_last) put(next, stage ^ 1);
    begin = next_begin;
  }
  if (__syncthreads_or(is_cut && !(AreFinite(sums0) && (!of_keys || AreFinite(sums1))))) {
    float* const sum_space = (float*)shared;
#pragma unroll 1
    for (int i = 0; i < 64 * kTiles && i < own0.rows; i += 32)
      AttentionGradRows<32, of_keys, kMembers>(RowsFrom(own0, i), RowsFrom(own1, i), others0, others1, kD, kE,
                                               own_first + i, first_other, end, facts_of, grad0 + i * stride0, stride0,
                                               of_keys ? grad1 + i * stride1 : grad1, stride1, scale, sum_space,
                                               sum_space + 64 * 36, facts, LoadBf16(), StoreBf16());
    return;
  }
#pragma unroll
  for (int m = 0; m < kTiles; ++m)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = first + 16 * m + lane / 4 + 8 * r;
      if (row >= own0.rows) continue;
#pragma unroll
      for (int n = 0; n < kD / 8; ++n)
        StorePair(grad0 + row * stride0 + 8 * n + pair,
                  PackedBf16(sums0[m][n][2 * r] * scale, sums0[m][n][2 * r + 1] * scale), by_words);
      if (!of_keys) continue;
#pragma unroll
      for (int n = 0; n < kE / 8; ++n)
        StorePair(grad1 + row * stride1 + 8 * n + pair, PackedBf16(sums1[m][n][2 * r], sums1[m][n][2 * r + 1]),
                  by_words);
    }
}
