#include "meshwork/ops/kernels/reduce.h"

#include <cstddef>
#include <span>
#include <utility>

namespace meshwork {
namespace {

constexpr int64_t kTile = 512;  // results

// Calls f(offset) for every index of `dims`, in order.
template <typename F>
void ForEachOffset(std::span<const ReduceWalk::Dim> dims, F&& f) {
  std::array<int64_t, kMaxRank> index = {};
  for (const ReduceWalk::Dim& dim : dims)
    if (dim.size == 0) return;
  int64_t offset = 0;
  while (true) {
    f(offset);
    size_t d = dims.size();
    do {
      if (d-- == 0) return;
      offset += dims[d].stride;
      if (++index[d] < dims[d].size) break;
      offset -= dims[d].size * dims[d].stride;
      index[d] = 0;
    } while (true);
  }
}

// Folds n neighbours of a row of results, which begins at `a`, into `tile`.
void FoldTile(const ReduceWalk& walk, const ReduceLoops& loops, CpuLevel level, const std::byte* a, int64_t n,
              void* tile) {
  loops.clear(tile, n);
  // The inner reduced dim is a block of rows.
  std::span<const ReduceWalk::Dim> outer = walk.reduced;
  ReduceWalk::Dim inner{1, 0};
  if (!outer.empty()) {
    inner = outer.back();
    outer = outer.first(outer.size() - 1);
  }
  std::array<double, kTile> sums;
  LongSum sum(sums.data(), 1, n, kTermsOfPart);
  int64_t room = 0;  // rows that the part takes still
  ForEachOffset(outer, [&](int64_t offset) {
    for (int64_t row = 0, rows; row < inner.size; row += rows) {
      rows = inner.size - row;
      if (loops.is_sum_of_floats) {
        if (room == 0) room = kTermsOfPart;
        rows = std::min(rows, room);
        room -= rows;
        if (sum.Begins(rows, static_cast<const float*>(tile), n)) loops.clear(tile, n);
      }
      loops.fold(level, tile,
                 {a + (offset + row * inner.stride) * loops.element, rows, inner.stride, n, walk.row.stride,
                  walk.run});
    }
  });
  if (loops.is_sum_of_floats) sum.Finish(static_cast<float*>(tile), n);
}

}  // namespace

ReduceWalk MakeReduceWalk(const Shape& shape, const std::vector<bool>& reduces) {
  ReduceWalk walk;
  ReduceWalk::Dims reversed;
  std::vector<bool> folded;  // per merged dim
  int64_t stride = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    if (!reduces[d]) walk.results *= shape[d];
    if (shape[d] == 1) continue;
    if (!folded.empty() && folded.back() == reduces[d]) {
      reversed.back().size *= shape[d];
    } else {
      reversed.push_back({shape[d], stride});
      folded.push_back(reduces[d]);
    }
    stride *= shape[d];
  }
  size_t next = 0;
  if (next < reversed.size() && folded[next]) walk.run = reversed[next++].size;
  const bool is_empty_run = next == 1 && walk.run == 0;
  walk.row = next < reversed.size() ? reversed[next++] : ReduceWalk::Dim{1, 1};
  if (is_empty_run) walk.reduced.push_back({0, 0});
  for (size_t d = reversed.size(); d-- > next;) (folded[d] ? walk.reduced : walk.kept).push_back(reversed[d]);
  return walk;
}

Kernel ReduceKernel(ReduceWalk walk, const ReduceLoops& loops, int64_t count) {
  const int64_t units = walk.results;
  // Results fall into parts with the operand along the kept dims that come before all reduced ones.
  int64_t parts = 1;
  if (walk.reduced.empty()) {
    parts = walk.results;
  } else {
    for (const ReduceWalk::Dim& dim : walk.kept)
      if (dim.stride > walk.reduced.front().stride) parts *= dim.size;
  }
  return {.run =
              [walk = std::move(walk), loops, count](const KernelArgs& args) {
                const CpuLevel level = UsedCpuLevel();
                alignas(64) std::array<std::byte, kTile * kMostBytesOfAccumulator> tile;
                for (int64_t at = args.begin; at < args.end;) {
                  const int64_t first = at % walk.row.size;
                  const int64_t n = std::min({walk.row.size - first, args.end - at, kTile});
                  int64_t from = first * walk.row.stride;
                  int64_t rest = at / walk.row.size;
                  for (size_t d = walk.kept.size(); d-- > 0; rest /= walk.kept[d].size)
                    from += rest % walk.kept[d].size * walk.kept[d].stride;
                  FoldTile(walk, loops, level, args.In<std::byte>(0) + from * loops.element, n, tile.data());
                  loops.store(level, args.Out<std::byte>(0) + at * loops.element, tile.data(), n, count);
                  at += n;
                }
              },
          .units = units,
          .by_rows = true,
          .parts = {parts}};
}

}  // namespace meshwork
