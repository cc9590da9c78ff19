// The loops of attention and its gradients, in tiles that stay in the L2 cache: the scores of some queries
// and some keys at a time, never all of them (Dao et al., arXiv 2205.14135).
//
// Rows of a tile follow each other, whatever lies between them in memory. Products are the library's, of
// float or double; everything is summed in the order of the tiles, which depends on the shape alone.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "ops/kernel.h"
#include "ops/kernels/elementwise.h"
#include "ops/kernels/gemm.h"
#include "ops/kernels/reduce.h"
#include "ops/kernels/vector_math.h"

namespace meshwork {

// q: [b,s,h,d], k: [b,t,h,d], v: [b,t,h,e], of one device.
struct AttentionSizes {
  int64_t b, s, t, h, d, e;
  bool causal;  // query i sees keys 0 to i, counted in the whole sequence
  double scale;
};

// Queries and keys of a tile, and dims of a head that are multiplied at once.
inline constexpr int64_t kQueryTile = 64, kKeyTile = 128, kHeadTile = 128;

namespace attention {

// What a thread has of the tiles it works on, computed with T.
template <typename T>
struct Tiles {
  alignas(64) T scores[kQueryTile * kKeyTile];       // then shares of the keys
  alignas(64) T slopes[kQueryTile * kKeyTile];       // gradients of the shares, then of the scores
  alignas(64) T query[kQueryTile * kHeadTile];       // of q, or of the result's gradient
  alignas(64) T key[kKeyTile * kHeadTile];           // of k or v
  alignas(64) T sums[2][kKeyTile * kHeadTile];       // of results
  alignas(64) T top[kQueryTile], total[kQueryTile];  // of the scores so far: the largest, the sum of exp
};
template <typename T>
Tiles<T>& ThreadTiles() {
  thread_local Tiles<T> tiles;
  return tiles;
}

// Rows of one head of a [.., rows, heads, dims].
template <typename E>
struct HeadRows {
  E* first;
  int64_t stride, dims;

  HeadRows(E* data, int64_t row, int64_t head, int64_t heads, int64_t dims)
      : first(data + (row * heads + head) * dims), stride(heads * dims), dims(dims) {}
};

// Dims [from, from + n) of some rows, as they are computed with.
template <typename E, typename T>
void LoadTile(const HeadRows<const E>& rows, int64_t count, int64_t from, int64_t n, T* tile) {
  for (int64_t r = 0; r < count; ++r) {
    const E* source = rows.first + r * rows.stride + from;
    T* target = tile + r * n;
    MESHWORK_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) target[i] = static_cast<T>(source[i]);
  }
}

template <typename E, typename T>
void StoreTile(const T* tile, int64_t count, int64_t from, int64_t n, const HeadRows<E>& rows) {
  for (int64_t r = 0; r < count; ++r) {
    E* target = rows.first + r * rows.stride + from;
    const T* source = tile + r * n;
    MESHWORK_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) target[i] = static_cast<E>(source[i]);
  }
}

// c [m,n] (+)= op(a) · op(b), whose rows follow each other.
template <typename T>
void MultiplyTile(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, bool adds, const T* a,
                  const T* b, T* c) {
  const GemmShape shape{.transpose_a = transpose_a,
                        .transpose_b = transpose_b,
                        .m = m,
                        .n = n,
                        .k = k,
                        .lda = transpose_a ? m : k,
                        .ldb = transpose_b ? k : n,
                        .ldc = n,
                        .accumulate = adds};
  const GemmTerm term;
  Gemm(shape, {&term, 1}, a, b, c);
}

// products [queries, keys] = a · bᵀ over all dims of the head.
template <typename E, typename T>
void MultiplyHeads(const HeadRows<const E>& a, int64_t queries, const HeadRows<const E>& b, int64_t keys,
                   Tiles<T>& tiles, T* products) {
  int64_t from = 0;
  do {
    const int64_t n = std::min(kHeadTile, a.dims - from);
    LoadTile(a, queries, from, n, tiles.query);
    LoadTile(b, keys, from, n, tiles.key);
    MultiplyTile(false, true, queries, keys, n, from > 0, tiles.query, tiles.key, products);
    from += n;
  } while (from < a.dims);
}

// How many of the keys from `first_key` on a query at `position` sees, both counted in the whole sequence.
inline int64_t SeenKeys(const AttentionSizes& z, int64_t position, int64_t first_key, int64_t keys) {
  return z.causal ? std::clamp<int64_t>(position + 1 - first_key, 0, keys) : keys;
}

// Takes the scores of one more tile of keys into account: they become shares of the sum so far, and what was
// summed with a smaller maximum is scaled to the new one.
template <typename T>
void AddScores(const AttentionSizes& z, int64_t position, int64_t queries, int64_t first_key, int64_t keys,
               int64_t dims, Tiles<T>& tiles) {
  const T scale = static_cast<T>(z.scale);
  for (int64_t r = 0; r < queries; ++r) {
    T* row = tiles.scores + r * keys;
    const int64_t seen = SeenKeys(z, position + r, first_key, keys);
    MESHWORK_INDEPENDENT
    for (int64_t j = 0; j < seen; ++j) row[j] *= scale;
    // Whole rows are computed faster than parts of every length.
    std::fill(row + seen, row + keys, -std::numeric_limits<T>::infinity());
    const T top = std::max(tiles.top[r], FoldRun<T, MaxOf<T>>(row, keys));
    MESHWORK_INDEPENDENT
    for (int64_t j = 0; j < keys; ++j) row[j] = ExpOf(row[j] - top);
    const T sum = FoldRun<T, SumOf<T>>(row, keys);
    if (first_key == 0) {
      tiles.total[r] = sum;
    } else {
      const T shrink = ExpOf(tiles.top[r] - top);
      tiles.total[r] = tiles.total[r] * shrink + sum;
      T* sums = tiles.sums[0] + r * dims;
      MESHWORK_INDEPENDENT
      for (int64_t i = 0; i < dims; ++i) sums[i] *= shrink;
    }
    tiles.top[r] = top;
  }
}

// How many keys of a block, the first at `first_key`, some query of a tile, the first at `position`, sees.
inline int64_t SeenByAny(const AttentionSizes& z, int64_t position, int64_t queries, int64_t first_key = 0) {
  return SeenKeys(z, position + queries - 1, first_key, z.t);
}

// One head of some queries: dims [from, from + n) of the result, and where `from` is 0 the logarithm of the
// sum of exp of the scores.
template <typename E, typename T>
void AttendTile(const AttentionSizes& z, int64_t position, int64_t queries, int64_t from, int64_t n,
                const HeadRows<const E>& q, const HeadRows<const E>& k, const HeadRows<const E>& v,
                const HeadRows<E>& out, T* log_sums) {
  Tiles<T>& tiles = ThreadTiles<T>();
  std::fill_n(tiles.top, queries, -std::numeric_limits<T>::infinity());
  std::fill_n(tiles.total, queries, T(0));
  const int64_t all = SeenByAny(z, position, queries);
  T* sums = tiles.sums[0];
  if (all == 0) std::fill_n(sums, queries * n, T(0));
  for (int64_t first = 0; first < all; first += kKeyTile) {
    const int64_t keys = std::min(kKeyTile, all - first);
    HeadRows<const E> k_tile = k, v_tile = v;
    k_tile.first += first * k.stride;
    v_tile.first += first * v.stride;
    MultiplyHeads(q, queries, k_tile, keys, tiles, tiles.scores);
    AddScores(z, position, queries, first, keys, n, tiles);
    LoadTile(v_tile, keys, from, n, tiles.key);
    MultiplyTile(false, false, queries, n, keys, first > 0, tiles.scores, tiles.key, sums);
  }
  for (int64_t r = 0; r < queries; ++r) {
    const T part = all == 0 ? T(0) : 1 / tiles.total[r];
    MESHWORK_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) sums[r * n + i] *= part;
  }
  StoreTile(sums, queries, from, n, out);
  if (from != 0) return;
  for (int64_t r = 0; r < queries; ++r) log_sums[r * z.h] = tiles.top[r] + LogOf(tiles.total[r]);
}

// Operands of the gradients: q, k, v, the result's gradient, and per query and head the log-sum and what is
// subtracted from the gradient of each share.
template <typename E>
struct GradOperands {
  const E *q, *k, *v, *g;
  const Compute<E>*log_sums, *shifts;

  explicit GradOperands(const KernelArgs& args)
      : q(args.In<E>(0)),
        k(args.In<E>(1)),
        v(args.In<E>(2)),
        g(args.In<E>(3)),
        log_sums(args.In<Compute<E>>(4)),
        shifts(args.In<Compute<E>>(5)) {}
};

// Some rows of a sequence: where they are in the block, and in the whole.
struct Rows {
  int64_t first, count, position;
};

// Shares of some keys of batch `b` for some queries, to tiles.scores, and the gradients of the scores, to
// tiles.slopes.
template <typename E, typename T = Compute<E>>
void SlopesOf(const AttentionSizes& z, const GradOperands<E>& in, int64_t b, int64_t head,
              const Rows& queries, const Rows& keys, Tiles<T>& tiles) {
  const int64_t query_row = b * z.s + queries.first, key_row = b * z.t + keys.first;
  MultiplyHeads(HeadRows<const E>(in.q, query_row, head, z.h, z.d), queries.count,
                HeadRows<const E>(in.k, key_row, head, z.h, z.d), keys.count, tiles, tiles.scores);
  MultiplyHeads(HeadRows<const E>(in.g, query_row, head, z.h, z.e), queries.count,
                HeadRows<const E>(in.v, key_row, head, z.h, z.e), keys.count, tiles, tiles.slopes);
  const T scale = static_cast<T>(z.scale);
  for (int64_t r = 0; r < queries.count; ++r) {
    T *share = tiles.scores + r * keys.count, *slope = tiles.slopes + r * keys.count;
    const int64_t seen = SeenKeys(z, queries.position + r, keys.position, keys.count);
    const T log_sum = in.log_sums[(query_row + r) * z.h + head];
    const T shift = in.shifts[(query_row + r) * z.h + head];
    MESHWORK_INDEPENDENT
    for (int64_t j = 0; j < keys.count; ++j) {
      share[j] = ExpOf(share[j] * scale - log_sum);
      slope[j] = share[j] * (slope[j] - shift) * scale;
    }
    std::fill(share + seen, share + keys.count, T(0));
    std::fill(slope + seen, slope + keys.count, T(0));
  }
}

}  // namespace attention

// Calls f(b, first, count) for the tiles of `tile` rows of [batch, rows] that rows [begin, end) are.
template <typename F>
void ForEachTile(int64_t begin, int64_t end, int64_t rows, int64_t tile, F&& f) {
  for (int64_t at = begin; at < end;) {
    const int64_t first = at % rows, count = std::min({tile, rows - first, end - at});
    f(at / rows, first, count);
    at += count;
  }
}

// Calls f(from, n) for the parts of so many dims of a head; once if there are none.
template <typename F>
void ForEachHeadTile(int64_t dims, F&& f) {
  int64_t from = 0;
  do {
    const int64_t n = std::min(kHeadTile, dims - from);
    f(from, n);
    from += n;
  } while (from < dims);
}

// Queries [begin, end) of the batch: q, k, v -> the result and the log-sums [b,s,h].
template <typename E>
void AttendQueries(const AttentionSizes& z, const KernelArgs& args) {
  using attention::HeadRows;
  using T = Compute<E>;
  const int64_t start = args.in_blocks[0][1].start;
  ForEachTile(args.begin, args.end, z.s, kQueryTile, [&](int64_t b, int64_t first, int64_t queries) {
    const int64_t row = b * z.s + first;
    for (int64_t head = 0; head < z.h; ++head)
      ForEachHeadTile(z.e, [&](int64_t from, int64_t n) {
        attention::AttendTile<E, T>(
            z, start + first, queries, from, n, HeadRows<const E>(args.In<E>(0), row, head, z.h, z.d),
            HeadRows<const E>(args.In<E>(1), b * z.t, head, z.h, z.d),
            HeadRows<const E>(args.In<E>(2), b * z.t, head, z.h, z.e),
            HeadRows<E>(args.Out<E>(0), row, head, z.h, z.e), args.Out<T>(1) + row * z.h + head);
      });
  });
}

// Queries [begin, end) of the batch: the gradient of q, as far as the keys here make it.
template <typename E>
void QueryGradients(const AttentionSizes& z, const KernelArgs& args) {
  using attention::HeadRows;
  using T = Compute<E>;
  const attention::GradOperands<E> in(args);
  const int64_t start = args.in_blocks[0][1].start, key_start = args.in_blocks[1][1].start;
  attention::Tiles<T>& tiles = attention::ThreadTiles<T>();
  auto tile = [&](int64_t b, const attention::Rows& queries, int64_t head, int64_t from, int64_t n) {
    const int64_t seen = attention::SeenByAny(z, queries.position, queries.count, key_start);
    if (seen == 0) std::fill_n(tiles.sums[0], queries.count * n, T(0));
    for (int64_t key = 0; key < seen; key += kKeyTile) {
      const attention::Rows keys{key, std::min(kKeyTile, seen - key), key_start + key};
      attention::SlopesOf(z, in, b, head, queries, keys, tiles);
      attention::LoadTile(HeadRows<const E>(in.k, b * z.t + key, head, z.h, z.d), keys.count, from, n,
                          tiles.key);
      attention::MultiplyTile(false, false, queries.count, n, keys.count, key > 0, tiles.slopes, tiles.key,
                              tiles.sums[0]);
    }
    attention::StoreTile(tiles.sums[0], queries.count, from, n,
                         HeadRows<E>(args.Out<E>(0), b * z.s + queries.first, head, z.h, z.d));
  };
  ForEachTile(args.begin, args.end, z.s, kQueryTile, [&](int64_t b, int64_t first, int64_t count) {
    for (int64_t head = 0; head < z.h; ++head)
      ForEachHeadTile(z.d, [&](int64_t from, int64_t n) {
        tile(b, {first, count, start + first}, head, from, n);
      });
  });
}

// Keys [begin, end) of the batch: the gradients of k and v, summed over the queries here.
template <typename E>
void KeyGradients(const AttentionSizes& z, const KernelArgs& args) {
  using attention::HeadRows;
  using T = Compute<E>;
  const attention::GradOperands<E> in(args);
  const int64_t start = args.in_blocks[0][1].start, key_start = args.in_blocks[1][1].start;
  attention::Tiles<T>& tiles = attention::ThreadTiles<T>();
  // Dims [from, from + n) of the i-th gradient, summed over queries: sums[i] += sharesᵀ · rows.
  auto add = [&](int i, const T* shares, const HeadRows<const E>& rows, int64_t queries, int64_t keys,
                 int64_t from, int64_t n) {
    if (n <= 0) return;
    attention::LoadTile(rows, queries, from, n, tiles.query);
    attention::MultiplyTile(true, false, keys, n, queries, true, shares, tiles.query, tiles.sums[i]);
  };
  auto store = [&](int i, int64_t key_row, int64_t keys, int64_t head, int64_t dims, int64_t from,
                   int64_t n) {
    if (n <= 0) return;
    attention::StoreTile(tiles.sums[i], keys, from, n, HeadRows<E>(args.Out<E>(i), key_row, head, z.h, dims));
  };
  auto tile = [&](int64_t b, const attention::Rows& keys, int64_t head, int64_t from) {
    const int64_t of_k = std::min(kHeadTile, z.d - from), of_v = std::min(kHeadTile, z.e - from);
    for (T* sums : tiles.sums) std::fill_n(sums, keys.count * kHeadTile, T(0));
    // Queries before the first key see none of these.
    const int64_t blind = z.causal ? std::clamp<int64_t>(keys.position - start, 0, z.s) : 0;
    for (int64_t query = blind / kQueryTile * kQueryTile; query < z.s; query += kQueryTile) {
      const attention::Rows queries{query, std::min(kQueryTile, z.s - query), start + query};
      attention::Rows seen = keys;
      seen.count = attention::SeenKeys(z, queries.position + queries.count - 1, keys.position, keys.count);
      attention::SlopesOf(z, in, b, head, queries, seen, tiles);
      const int64_t row = b * z.s + query;
      add(0, tiles.slopes, HeadRows<const E>(in.q, row, head, z.h, z.d), queries.count, seen.count, from,
          of_k);
      add(1, tiles.scores, HeadRows<const E>(in.g, row, head, z.h, z.e), queries.count, seen.count, from,
          of_v);
    }
    const int64_t key_row = b * z.t + keys.first;
    store(0, key_row, keys.count, head, z.d, from, of_k);
    store(1, key_row, keys.count, head, z.e, from, of_v);
  };
  ForEachTile(args.begin, args.end, z.t, kKeyTile, [&](int64_t b, int64_t first, int64_t count) {
    for (int64_t head = 0; head < z.h; ++head)
      for (int64_t from = 0; from < std::max(z.d, z.e); from += kHeadTile)
        tile(b, {first, count, key_start + first}, head, from);
  });
}

}  // namespace meshwork
