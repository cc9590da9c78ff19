#include "meshwork/ops/kernels/elementwise.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <utility>

#include "meshwork/base/divide.h"
#include "meshwork/base/status.h"

namespace meshwork {
namespace {

constexpr int64_t kPiece = 512;  // elements that are converted to floats at a time: 2 KiB per operand

const std::byte* At(const void* elements, int64_t i, const ElementStorage& storage) {
  return static_cast<const std::byte*>(elements) + i * storage.size;
}
std::byte* At(void* elements, int64_t i, const ElementStorage& storage) {
  return static_cast<std::byte*>(elements) + i * storage.size;
}

// Calls run(index, results, n) for pieces of n elements. Where results are rounded, they are floats until then.
template <typename Run>
void ForEachPiece(CpuLevel level, void* out, int64_t n, const ElementStorage& storage, const Run& run) {
  alignas(64) float wide[kPiece];
  for (int64_t i = 0; i < n; i += kPiece) {
    const int64_t count = std::min(kPiece, n - i);
    if (storage.narrow == nullptr) {
      run(i, At(out, i, storage), count);
    } else {
      run(i, wide, count);
      storage.narrow(level, wide, At(out, i, storage), count);
    }
  }
}

void RunWidened(CpuLevel level, UnaryLoop loop, const void* f, const UnaryRow& row, const ElementStorage& in,
                const ElementStorage& out) {
  alignas(64) float a[kPiece];
  ForEachPiece(level, row.out, row.n, out, [&](int64_t i, void* to, int64_t n) {
    in.widen(level, At(row.a, i, in), a, n);
    loop(level, f, {a, to, n});
  });
}

// Converts the elements of the operand that `rows` rows of n elements read to floats. They stay in their order, without
// gaps.
BinaryBlock::Operand Widened(CpuLevel level, const BinaryBlock::Operand& from, int64_t rows, int64_t n,
                             const ElementStorage& in, float* wide) {
  const int64_t row = from.repeats ? 1 : n;
  in.widen(level, from.first, wide, from.step == 0 ? row : rows * row);
  return {wide, from.repeats, from.step};
}

// Whether an operand's rows lie one behind the other, or are all the same.
bool IsDense(const BinaryBlock::Operand& operand, int64_t n) {
  return operand.step == 0 || operand.step == (operand.repeats ? 1 : n);
}

void RunWidened(CpuLevel level, BinaryLoop loop, const BinaryBlock& block, const ElementStorage& in,
                const ElementStorage& out) {
  alignas(64) float a[kPiece], b[kPiece];
  const auto behind = [&](const BinaryBlock::Operand& operand, int64_t row,
                          int64_t i) -> BinaryBlock::Operand {
    return {At(operand.first, row * operand.step + (operand.repeats ? 0 : i), in), operand.repeats,
            operand.step};
  };
  const bool has_short_rows = block.n <= kPiece && IsDense(block.a, block.n) && IsDense(block.b, block.n);
  const int64_t rows = has_short_rows ? kPiece / block.n : 1;
  for (int64_t row = 0; row < block.rows; row += rows) {
    const int64_t count = std::min(rows, block.rows - row);
    ForEachPiece(level, At(block.out, row * block.n, out), count * block.n, out,
                 [&](int64_t i, void* to, int64_t elements) {
                   const int64_t n = count == 1 ? elements : block.n;
                   loop(level, {Widened(level, behind(block.a, row, i), count, n, in, a),
                                Widened(level, behind(block.b, row, i), count, n, in, b), to, count, n});
                 });
  }
}

}  // namespace

Kernel UnaryRows(const KernelSpec& spec, UnaryLoop loop, std::shared_ptr<const void> f, ElementStorage in,
                 ElementStorage out) {
  const int64_t elements = spec.results[0].local.num_elements();
  return {.run =
              [=, f = std::move(f)](const KernelArgs& args) {
                const CpuLevel level = UsedCpuLevel();
                const UnaryRow row{At(args.in[0], args.begin, in), At(args.out[0], args.begin, out),
                                   args.end - args.begin};
                if (in.widen == nullptr) loop(level, f.get(), row);
                else RunWidened(level, loop, f.get(), row, in, out);
              },
          .units = elements,
          .by_rows = true,
          .parts = {elements}};
}

Kernel BinaryRows(const KernelSpec& spec, BinaryLoop loop, ElementStorage in, ElementStorage out) {
  const BroadcastWalk<2> walk = MakeWalk<2>(spec);
  // Along the innermost dim an operand is dense or repeats one element, and at least one operand is dense: if both
  // repeated, the result would have only one element there.
  const std::array<int64_t, 2>& strides = walk.dims.back().strides;
  MESHWORK_CHECK(strides[0] <= 1 && strides[1] <= 1 && strides[0] + strides[1] > 0, "strides {} and {}",
                 strides[0], strides[1]);
  // The walk over whole rows: one block for each run of it.
  BroadcastWalk<2> rows{.dims = {walk.dims.begin(), walk.dims.end() - 1}};
  if (rows.dims.empty()) rows.dims.push_back({1, {0, 0}});
  return BroadcastKernel<2>(spec, walk, [=](const KernelArgs& args) {
    if (args.begin >= args.end) return;  // also where the rows are empty
    const CpuLevel level = UsedCpuLevel();
    const BroadcastWalk<2>::Dim &inner = walk.dims.back(), &next = rows.dims.back();
    const auto run = [&](int64_t to, const std::array<int64_t, 2>& from, int64_t count, int64_t n) {
      const BinaryBlock block{.a = {At(args.in[0], from[0], in), inner.strides[0] == 0, next.strides[0]},
                              .b = {At(args.in[1], from[1], in), inner.strides[1] == 0, next.strides[1]},
                              .out = At(args.out[0], to, out),
                              .rows = count,
                              .n = n};
      if (in.widen == nullptr) loop(level, block);
      else RunWidened(level, loop, block, in, out);
    };
    const auto run_one = [&](int64_t to, const std::array<int64_t, 2>& from, int64_t n) {
      run(to, from, 1, n);
    };
    // A part of a row, whole rows, a part of a row.
    const int64_t first = CeilDiv(args.begin, inner.size), last = args.end / inner.size;
    if (first >= last) return ForEachRun(walk, args.begin, args.end, run_one);
    ForEachRun(walk, args.begin, first * inner.size, run_one);
    ForEachRun(rows, first, last, [&](int64_t row, const std::array<int64_t, 2>& from, int64_t count) {
      run(row * inner.size, from, count, inner.size);
    });
    ForEachRun(walk, last * inner.size, args.end, run_one);
  });
}

}  // namespace meshwork
