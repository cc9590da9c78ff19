// The loops of attention and its gradients, in tiles that stay in the L2 cache: the scores of some queries
// and some keys at a time, never all of them (Dao et al., arXiv 2205.14135).
//
// Rows of a tile are contiguous, even if they are not contiguous in the tensor. Products are the library's,
// of float or double; everything is summed in the order of the tiles, which depends on the shape alone.
//
// A key that a query does not see adds nothing to the query's result, even if the key is infinite or NaN: if
// some query sees a tile only in part, its products leave out infinite and NaN elements, and those elements
// that are seen are added one by one (MultiplySeen).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "meshwork/ir/kernel.h"
#include "meshwork/ops/kernels/attention_sizes.h"
#include "meshwork/ops/kernels/blas/gemm.h"
#include "meshwork/ops/kernels/elementwise.h"
#include "meshwork/ops/kernels/portable/vector_math.h"
#include "meshwork/ops/kernels/reduce.h"

namespace meshwork {

// Queries and keys of a tile, and dims of a head that are multiplied at once.
inline constexpr int64_t kQueryTile = 64, kKeyTile = 128, kHeadTile = 128;

namespace attention {

// The tiles that a thread works on, computed in T.
template <typename T>
struct Tiles {
  alignas(64) T scores[kQueryTile * kKeyTile];       // then shares of the keys
  alignas(64) T slopes[kQueryTile * kKeyTile];       // gradients of the shares, then of the scores
  alignas(64) T query[kQueryTile * kHeadTile];       // of q, or of the result's gradient
  alignas(64) T key[kKeyTile * kHeadTile];           // of k or v
  alignas(64) T sums[2][kKeyTile * kHeadTile];       // of results
  alignas(64) T top[kQueryTile], total[kQueryTile];  // of the scores so far: the largest, the sum of exp
  alignas(64) T special[kKeyTile * kHeadTile];       // infinite or NaN elements of `query` or `key`, else 0
  int64_t limits[kQueryTile];  // per query how many keys it sees, counted in the whole sequence
};
template <typename T>
Tiles<T>& ThreadTiles() {
  thread_local Tiles<T> tiles;
  return tiles;
}

// Rows of one head of a [.., rows, heads, dims], or of some heads that follow each other: then row r has head
// r % members of row r / members of the tensor.
template <typename E>
struct HeadRows {
  E* first;
  int64_t stride, members, dims;

  HeadRows(E* data, int64_t row, int64_t head, int64_t heads, int64_t dims, int64_t members = 1)
      : first(data + (row * heads + head) * dims), stride(heads * dims), members(members), dims(dims) {}

  E* At(int64_t r) const {
    return members == 1 ? first + r * stride : first + r / members * stride + r % members * dims;
  }
};

// Dims [from, from + n) of some rows, in the type they are computed in.
template <typename E, typename T>
void LoadTile(const HeadRows<const E>& rows, int64_t count, int64_t from, int64_t n, T* tile) {
  for (int64_t r = 0; r < count; ++r) {
    const E* source = rows.At(r) + from;
    T* target = tile + r * n;
    MESHWORK_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) target[i] = static_cast<T>(source[i]);
  }
}

template <typename E, typename T>
void StoreTile(const T* tile, int64_t count, int64_t from, int64_t n, const HeadRows<E>& rows) {
  for (int64_t r = 0; r < count; ++r) {
    E* target = rows.At(r) + from;
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

// Some rows of a sequence: where they are in the block, and in the whole.
struct Rows {
  int64_t first, count, position;
};

// The rows of a tile of queries: some queries, and of each the heads [member, member + members) of those that share a
// head of keys. Row r is of query r / members.
struct QueryRows {
  Rows queries;
  int64_t member, members;

  int64_t count() const { return queries.count * members; }
  // Their rows of a tensor [b,s,h,g,dims].
  template <typename E>
  HeadRows<E> Of(E* data, const AttentionSizes& z, int64_t b, int64_t head, int64_t dims) const {
    return HeadRows<E>(data, b * z.s + queries.first, head * z.g + member, z.h * z.g, dims, members);
  }
};

// The number of keys that each query of a batch sees.
class Sight {
 public:
  // The operand with index `seen`, if the sizes say that there is one, has these numbers; operand 1 has the
  // keys.
  Sight(const AttentionSizes& z, const KernelArgs& args, int seen)
      : s_(z.s),
        causal_(z.causal),
        seen_(z.has_seen ? args.In<int32_t>(seen) : nullptr),
        num_queries_(args.in_blocks[0][1].size),
        end_(args.in_blocks[1][1].start + args.in_blocks[1][1].size) {}

  // Sets tiles.limits of these rows; returns the largest. Padding of a block sees nothing and is not seen.
  template <typename T>
  int64_t Look(int64_t b, const QueryRows& rows, Tiles<T>& tiles) const {
    int64_t most = 0;
    for (int64_t i = 0; i < rows.queries.count; ++i) {
      const int64_t query = rows.queries.first + i;
      int64_t limit = query < num_queries_ ? end_ : 0;
      if (causal_) limit = std::min(limit, rows.queries.position + i + 1);
      if (seen_ != nullptr) limit = std::min<int64_t>(limit, seen_[b * s_ + query]);
      std::fill_n(tiles.limits + i * rows.members, rows.members, limit);
      most = std::max(most, limit);
    }
    return most;
  }

 private:
  int64_t s_;
  bool causal_;
  const int32_t* seen_;
  int64_t num_queries_, end_;
};

// The number of keys before `limit`, among `keys` keys from position `first_key` on.
inline int64_t SeenKeys(int64_t limit, int64_t first_key, int64_t keys) {
  return std::clamp<int64_t>(limit - first_key, 0, keys);
}

// Moves the non-finite ones of `n` elements to `special` and leaves 0 behind; returns whether there are any.
template <typename T>
bool SetApart(T* elements, int64_t n, T* special) {
  int any = 0;
  for (int64_t i = 0; i < n; ++i) any |= static_cast<int>(!(elements[i] - elements[i] == 0));
  if (any == 0) return false;
  for (int64_t i = 0; i < n; ++i) {
    const bool is_finite = elements[i] - elements[i] == 0;
    special[i] = is_finite ? T(0) : elements[i];
    if (!is_finite) elements[i] = 0;
  }
  return true;
}

// c (+)= weights · rows, or weightsᵀ · rows, where weights [queries, keys] are 0 for keys that a query does
// not see: those add nothing, whatever the rows are. rows: n dims of each key, or, transposed, of each query;
// changed on the way. The first key is at `first_key`.
template <typename T>
void MultiplySeen(bool transpose, int64_t queries, int64_t first_key, int64_t keys, int64_t n, bool adds,
                  const T* weights, T* rows, Tiles<T>& tiles, T* c) {
  bool is_hidden = false;
  for (int64_t r = 0; r < queries; ++r) is_hidden |= SeenKeys(tiles.limits[r], first_key, keys) < keys;
  const bool is_apart = is_hidden && SetApart(rows, (transpose ? queries : keys) * n, tiles.special);
  MultiplyTile(transpose, false, transpose ? keys : queries, n, transpose ? queries : keys, adds, weights,
               rows, c);
  if (!is_apart) return;
  for (int64_t r = 0; r < queries; ++r) {
    const int64_t seen = SeenKeys(tiles.limits[r], first_key, keys);
    for (int64_t j = 0; j < seen; ++j) {
      const T* special = tiles.special + (transpose ? r : j) * n;
      T* sums = c + (transpose ? j : r) * n;
      for (int64_t i = 0; i < n; ++i)
        if (special[i] != 0) sums[i] += weights[r * keys + j] * special[i];
    }
  }
}

// Takes the scores of one more tile of keys into account: they become shares of the sum so far, and earlier
// sums with a smaller maximum are scaled to the new maximum. A query that sees none of the keys, or whose
// scores are all -inf, gives no share.
template <typename T>
void AddScores(const AttentionSizes& z, int64_t queries, int64_t first_key, int64_t keys, int64_t dims,
               Tiles<T>& tiles) {
  const T scale = static_cast<T>(z.scale);
  constexpr T kLowest = -std::numeric_limits<T>::infinity();
  for (int64_t r = 0; r < queries; ++r) {
    T* row = tiles.scores + r * keys;
    const int64_t seen = SeenKeys(tiles.limits[r], first_key, keys);
    MESHWORK_INDEPENDENT
    for (int64_t j = 0; j < seen; ++j) row[j] *= scale;
    // Whole rows are computed faster than parts of every length.
    std::fill(row + seen, row + keys, kLowest);
    const T top = MaxOf<T>::Apply(tiles.top[r], FoldRun<T, MaxOf<T>>(row, keys));
    // The difference to a maximum of -inf would be NaN.
    const T shift = top == kLowest ? T(0) : top;
    MESHWORK_INDEPENDENT
    for (int64_t j = 0; j < keys; ++j) row[j] = portable::Exp(row[j] - shift);
    // If the maximum is NaN, these have become NaN.
    std::fill(row + seen, row + keys, T(0));
    const T sum = FoldRun<T, SumOf<T>>(row, keys);
    if (first_key == 0) {
      tiles.total[r] = sum;
    } else {
      const T shrink = portable::Exp(tiles.top[r] - shift);
      tiles.total[r] = tiles.total[r] * shrink + sum;
      T* sums = tiles.sums[0] + r * dims;
      MESHWORK_INDEPENDENT
      for (int64_t i = 0; i < dims; ++i) sums[i] *= shrink;
    }
    tiles.top[r] = top;
  }
}

// Rows of queries whose limits in the tile are at most `all`: computes dims [from, from + n) of the result and, if
// `from` is 0, the logarithm of the sum of exp of the scores.
template <typename E, typename T>
void AttendTile(const AttentionSizes& z, int64_t all, int64_t queries, int64_t from, int64_t n,
                const HeadRows<const E>& q, const HeadRows<const E>& k, const HeadRows<const E>& v,
                const HeadRows<E>& out, const HeadRows<T>& log_sums) {
  Tiles<T>& tiles = ThreadTiles<T>();
  std::fill_n(tiles.top, queries, -std::numeric_limits<T>::infinity());
  std::fill_n(tiles.total, queries, T(0));
  T* sums = tiles.sums[0];
  if (all == 0) std::fill_n(sums, queries * n, T(0));
  for (int64_t first = 0; first < all; first += kKeyTile) {
    const int64_t keys = std::min(kKeyTile, all - first);
    HeadRows<const E> k_tile = k, v_tile = v;
    k_tile.first += first * k.stride;
    v_tile.first += first * v.stride;
    MultiplyHeads(q, queries, k_tile, keys, tiles, tiles.scores);
    AddScores(z, queries, first, keys, n, tiles);
    LoadTile(v_tile, keys, from, n, tiles.key);
    MultiplySeen(false, queries, first, keys, n, first > 0, tiles.scores, tiles.key, tiles, sums);
  }
  for (int64_t r = 0; r < queries; ++r) {
    const T part = tiles.total[r] == 0 ? T(0) : 1 / tiles.total[r];
    MESHWORK_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) sums[r * n + i] *= part;
  }
  StoreTile(sums, queries, from, n, out);
  if (from != 0) return;
  for (int64_t r = 0; r < queries; ++r) *log_sums.At(r) = tiles.top[r] + portable::Log(tiles.total[r]);
}

// Operands of the gradients: q, k, v, the result's gradient, and per query and head the log-sum and the
// number that is subtracted from the gradient of each share.
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

// Writes the shares of some keys of batch `b` for some queries to tiles.scores, and the gradients of the
// scores to tiles.slopes.
template <typename E, typename T = Compute<E>>
void SlopesOf(const AttentionSizes& z, const GradOperands<E>& in, int64_t b, int64_t head,
              const QueryRows& rows, const Rows& keys, Tiles<T>& tiles) {
  const int64_t key_row = b * z.t + keys.first;
  MultiplyHeads(rows.Of(in.q, z, b, head, z.d), rows.count(),
                HeadRows<const E>(in.k, key_row, head, z.h, z.d), keys.count, tiles, tiles.scores);
  MultiplyHeads(rows.Of(in.g, z, b, head, z.e), rows.count(),
                HeadRows<const E>(in.v, key_row, head, z.h, z.e), keys.count, tiles, tiles.slopes);
  const HeadRows<const T> log_sums = rows.Of(in.log_sums, z, b, head, 1),
                          shifts = rows.Of(in.shifts, z, b, head, 1);
  const T scale = static_cast<T>(z.scale);
  for (int64_t r = 0; r < rows.count(); ++r) {
    T *share = tiles.scores + r * keys.count, *slope = tiles.slopes + r * keys.count;
    const int64_t seen = SeenKeys(tiles.limits[r], keys.position, keys.count);
    // -inf for a query without shares; then no key gets a share.
    T log_sum = *log_sums.At(r);
    if (log_sum == -std::numeric_limits<T>::infinity()) log_sum = -log_sum;
    const T shift = *shifts.At(r);
    MESHWORK_INDEPENDENT
    for (int64_t j = 0; j < keys.count; ++j) {
      share[j] = portable::Exp(share[j] * scale - log_sum);
      slope[j] = share[j] * (slope[j] - shift) * scale;
    }
    std::fill(share + seen, share + keys.count, T(0));
    std::fill(slope + seen, slope + keys.count, T(0));
  }
}

}  // namespace attention

// Calls f(b, first, count) for tiles of at most `tile` rows of [batch, rows] that make up rows [begin, end).
template <typename F>
void ForEachTile(int64_t begin, int64_t end, int64_t rows, int64_t tile, F&& f) {
  for (int64_t at = begin; at < end;) {
    const int64_t first = at % rows, count = std::min({tile, rows - first, end - at});
    f(at / rows, first, count);
    at += count;
  }
}

// Calls f(from, n) for the parts of the `dims` dims of a head; once if there are no dims.
template <typename F>
void ForEachHeadTile(int64_t dims, F&& f) {
  int64_t from = 0;
  do {
    const int64_t n = std::min(kHeadTile, dims - from);
    f(from, n);
    from += n;
  } while (from < dims);
}

// The queries of a tile, whose heads of a group are rows of it, too.
inline int64_t QueryTile(const AttentionSizes& z) {
  return std::max<int64_t>(kQueryTile / std::max<int64_t>(z.g, 1), 1);
}

// Calls f(rows) for the rows of a tile: once, unless a group has more heads than a tile has rows.
template <typename F>
void ForEachGroupPart(const AttentionSizes& z, const attention::Rows& queries, F&& f) {
  for (int64_t member = 0; member < z.g; member += kQueryTile)
    f(attention::QueryRows{queries, member, std::min(kQueryTile, z.g - member)});
}

// Units [begin, end): queries of the batch or, where each batch has a single query, its heads. q, k, v -> the result and the
// log-sums [b,s,h,g].
template <typename E>
void AttendQueries(const AttentionSizes& z, const KernelArgs& args) {
  using attention::HeadRows;
  using T = Compute<E>;
  const int64_t start = args.in_blocks[0][1].start;
  const attention::Sight sight(z, args, 3);
  const auto attend = [&](int64_t b, int64_t first, int64_t count, int64_t head, int64_t end) {
    ForEachGroupPart(z, {first, count, start + first}, [&](const attention::QueryRows& rows) {
      const int64_t all = sight.Look(b, rows, attention::ThreadTiles<T>());
      for (int64_t h = head; h < end; ++h)
        ForEachHeadTile(z.e, [&](int64_t from, int64_t n) {
          attention::AttendTile<E, T>(z, all, rows.count(), from, n, rows.Of(args.In<E>(0), z, b, h, z.d),
                                      HeadRows<const E>(args.In<E>(1), b * z.t, h, z.h, z.d),
                                      HeadRows<const E>(args.In<E>(2), b * z.t, h, z.h, z.e),
                                      rows.Of(args.Out<E>(0), z, b, h, z.e),
                                      rows.Of(args.Out<T>(1), z, b, h, 1));
        });
    });
  };
  if (z.s == 1)
    ForEachTile(args.begin, args.end, z.h, z.h,
                [&](int64_t b, int64_t head, int64_t count) { attend(b, 0, 1, head, head + count); });
  else
    ForEachTile(args.begin, args.end, z.s, QueryTile(z),
                [&](int64_t b, int64_t first, int64_t count) { attend(b, first, count, 0, z.h); });
}

// Queries [begin, end) of the batch: the part of q's gradient that comes from the keys here.
template <typename E>
void QueryGradients(const AttentionSizes& z, const KernelArgs& args) {
  using attention::HeadRows;
  using attention::QueryRows;
  using T = Compute<E>;
  const attention::GradOperands<E> in(args);
  const int64_t start = args.in_blocks[0][1].start, key_start = args.in_blocks[1][1].start;
  const attention::Sight sight(z, args, 6);
  attention::Tiles<T>& tiles = attention::ThreadTiles<T>();
  auto tile = [&](int64_t b, const QueryRows& rows, int64_t seen, int64_t head, int64_t from, int64_t n) {
    if (seen == 0) std::fill_n(tiles.sums[0], rows.count() * n, T(0));
    for (int64_t key = 0; key < seen; key += kKeyTile) {
      const attention::Rows keys{key, std::min(kKeyTile, seen - key), key_start + key};
      attention::SlopesOf(z, in, b, head, rows, keys, tiles);
      attention::LoadTile(HeadRows<const E>(in.k, b * z.t + key, head, z.h, z.d), keys.count, from, n,
                          tiles.key);
      attention::MultiplySeen(false, rows.count(), keys.position, keys.count, n, key > 0, tiles.slopes,
                              tiles.key, tiles, tiles.sums[0]);
    }
    attention::StoreTile(tiles.sums[0], rows.count(), from, n, rows.Of(args.Out<E>(0), z, b, head, z.d));
  };
  ForEachTile(args.begin, args.end, z.s, QueryTile(z), [&](int64_t b, int64_t first, int64_t count) {
    ForEachGroupPart(z, {first, count, start + first}, [&](const QueryRows& rows) {
      const int64_t seen = attention::SeenKeys(sight.Look(b, rows, tiles), key_start, z.t);
      for (int64_t head = 0; head < z.h; ++head)
        ForEachHeadTile(z.d, [&](int64_t from, int64_t n) { tile(b, rows, seen, head, from, n); });
    });
  });
}

// Keys [begin, end) of the batch: the gradients of k and v, summed over the queries here and the heads of a group.
template <typename E>
void KeyGradients(const AttentionSizes& z, const KernelArgs& args) {
  using attention::HeadRows;
  using attention::QueryRows;
  using T = Compute<E>;
  const attention::GradOperands<E> in(args);
  const int64_t start = args.in_blocks[0][1].start, key_start = args.in_blocks[1][1].start;
  attention::Tiles<T>& tiles = attention::ThreadTiles<T>();
  const attention::Sight sight(z, args, 6);
  // Dims [from, from + n) of the i-th gradient, summed over queries: sums[i] += sharesᵀ · rows.
  auto add = [&](int i, const T* shares, const HeadRows<const E>& rows, int64_t queries,
                 const attention::Rows& keys, int64_t from, int64_t n) {
    if (n <= 0) return;
    attention::LoadTile(rows, queries, from, n, tiles.query);
    attention::MultiplySeen(true, queries, keys.position, keys.count, n, true, shares, tiles.query, tiles,
                            tiles.sums[i]);
  };
  auto store = [&](int i, int64_t key_row, int64_t keys, int64_t head, int64_t dims, int64_t from,
                   int64_t n) {
    if (n <= 0) return;
    attention::StoreTile(tiles.sums[i], keys, from, n, HeadRows<E>(args.Out<E>(i), key_row, head, z.h, dims));
  };
  auto tile = [&](int64_t b, const attention::Rows& keys, int64_t head, int64_t from) {
    const int64_t of_k = std::min(kHeadTile, z.d - from), of_v = std::min(kHeadTile, z.e - from);
    for (T* sums : tiles.sums) std::fill_n(sums, keys.count * kHeadTile, T(0));
    const auto add_rows = [&](const QueryRows& rows) {
      attention::Rows seen = keys;
      seen.count = attention::SeenKeys(sight.Look(b, rows, tiles), keys.position, keys.count);
      if (seen.count == 0) return;
      attention::SlopesOf(z, in, b, head, rows, seen, tiles);
      add(0, tiles.slopes, rows.Of(in.q, z, b, head, z.d), rows.count(), seen, from, of_k);
      add(1, tiles.scores, rows.Of(in.g, z, b, head, z.e), rows.count(), seen, from, of_v);
    };
    for (int64_t query = 0; query < z.s; query += QueryTile(z))
      ForEachGroupPart(z, {query, std::min(QueryTile(z), z.s - query), start + query}, add_rows);
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
