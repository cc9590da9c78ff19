// ---- Scatters: a block of 256 threads has some rows of the result and lists the updates of these, in their order.
#define LISTED 4096
template <typename Index> struct UpdateList {
  Index at[LISTED];             // the number of an update
  unsigned char owner[LISTED];  // the row that it goes to, of those that are listed
  int counts[32];
};
// Lists updates [begin, count) that go to rows [first_row, first_row + rows) until the list may be full; returns where to
// go on. `length` becomes the length of the list.
template <typename Index, typename RowOf>
__device__ inline Index ListUpdates(UpdateList<Index>& list, Index begin, Index count, Index first_row, Index rows,
                                    const RowOf& row_of, int& length) {
  const int thread = (int)threadIdx.x, lane = thread % 32, warp = thread / 32;
  length = 0;
  for (; begin < count && length + 1024 <= LISTED; begin += 1024) {
    int owner[4];
    unsigned votes[4];
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      const Index j = begin + q * 256 + thread;
      const long long row = j < count ? row_of(j) - first_row : -1;
      owner[q] = row >= 0 && row < rows ? (int)row : -1;
    }
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      votes[q] = begin + q * 256 < count ? __ballot_sync(0xffffffffu, owner[q] >= 0) : 0;
      if (lane == 0) list.counts[q * 8 + warp] = __popc(votes[q]);
    }
    __syncthreads();
    const int own = list.counts[lane];
    int sum = own;
    for (int by = 1; by < 32; by *= 2) {
      const int below = __shfl_up_sync(0xffffffffu, sum, by);
      sum += lane >= by ? below : 0;
    }
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      const int before = __shfl_sync(0xffffffffu, sum - own, q * 8 + warp);
      if (owner[q] < 0) continue;
      const int to = length + before + __popc(votes[q] & ((1u << lane) - 1));
      list.at[to] = begin + q * 256 + thread;
      list.owner[to] = (unsigned char)owner[q];
    }
    length += __shfl_sync(0xffffffffu, sum, 31);
    __syncthreads();
  }
  return begin;
}
// all[p] combined with the listed updates of row `owner`, at `column` + p kWide of `inner`; several are loaded at once.
template <int kWide, int kPer, typename T, typename Index, typename UpdateOf, typename Combine>
__device__ inline void TakeListed(T (&all)[kPer], const UpdateList<Index>& list, int length, int owner, Index first,
                                  Index inner, Index column, const UpdateOf& update_of, const Combine& combine) {
  const int lane = (int)threadIdx.x % 32;
  for (int begin = 0; begin < length; begin += 32) {
    unsigned votes = __ballot_sync(0xffffffffu, begin + lane < length && list.owner[begin + lane] == owner);
    while (votes != 0) {
      T taken[4][kPer];
      bool has[4];
#pragma unroll
      for (int u = 0; u < 4; ++u) {
        has[u] = votes != 0;
        if (!has[u]) continue;
        const int which = 31 - __clz((int)(votes & (0u - votes)));
        votes &= votes - 1;
        const Index at = (first + list.at[begin + which]) * inner + column;
#pragma unroll
        for (int p = 0; p < kPer; ++p)
          if (column + p * kWide < inner) taken[u][p] = update_of(at + p * kWide);
      }
#pragma unroll
      for (int u = 0; u < 4; ++u)
#pragma unroll
        for (int p = 0; p < kPer; ++p)
          if (has[u] && column + p * kWide < inner) all[p] = combine(all[p], taken[u][p]);
    }
  }
}
// Rows [first_row, first_row + rows) of a slab of [all_rows, inner], by `count` updates of [inner] each. kWide threads side
// by side have one row. row_of(j): the row in the slab of update j; initial_of(to), store(to, x): of element `to` of the
// result; update_of(at): element `at` of the updates.
template <int kWide, int kPer, typename T, typename Index, typename RowOf, typename InitialOf, typename UpdateOf,
          typename Combine, typename Store>
__device__ inline void ScatterToRows(UpdateList<Index>& list, Index slab, Index all_rows, Index first_row, Index rows,
                                     Index inner, Index count, const RowOf& row_of, const InitialOf& initial_of,
                                     const UpdateOf& update_of, const Combine& combine, const Store& store) {
  const int group = (int)threadIdx.x / kWide;
  // As many rows at a time as have all their updates in the list: half as many where some do not fit, then more again.
  Index at_once = rows;
  for (Index begin_row = 0; begin_row < rows;) {
    if (at_once > rows - begin_row) at_once = rows - begin_row;
    int length = 0;
    const bool is_all = ListUpdates(list, (Index)0, count, first_row + begin_row, at_once, row_of, length) >= count;
    if (!is_all && at_once > 1) {
      at_once = (at_once + 1) / 2;
      continue;
    }
    for (Index row = is_all ? group : 0; row < at_once; row += is_all ? 256 / kWide : 1) {
      for (Index begin = 0; begin < inner; begin += kWide * kPer) {
        const Index column = begin + (Index)threadIdx.x % kWide;
        const Index to = (slab * all_rows + first_row + begin_row + row) * inner + column;
        T all[kPer];
#pragma unroll
        for (int p = 0; p < kPer; ++p)
          if (column + p * kWide < inner) all[p] = initial_of(to + p * kWide);
        if (is_all) {
          TakeListed<kWide>(all, list, length, (int)row, slab * count, inner, column, update_of, combine);
        } else {
          // One row that has more updates than the list: by several lists.
          for (Index from = 0; from < count;) {
            from = ListUpdates(list, from, count, first_row + begin_row, (Index)1, row_of, length);
            TakeListed<kWide>(all, list, length, 0, slab * count, inner, column, update_of, combine);
            __syncthreads();
          }
          if (group > 0) continue;
        }
#pragma unroll
        for (int p = 0; p < kPer; ++p)
          if (column + p * kWide < inner) store(to + p * kWide, all[p]);
      }
    }
    begin_row += at_once;
    at_once *= 2;
    if (begin_row < rows) __syncthreads();
  }
}
