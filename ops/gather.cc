// The gather family: gather reads rows by index, scatter_add is its transpose.
//
// Indices are clamped to the dim, as in StableHLO. Along a sharded dim each device serves the indices whose
// rows it owns, so that gather's result is a sum over the devices and scatter_add's result is sharded.
#include <algorithm>

#include "base/status.h"
#include "ops/builder.h"
#include "ops/kernels/elementwise.h"
#include "ops/registry.h"

namespace meshwork {
namespace {

using Ints = std::vector<int64_t>;

// x: [outer, n, inner] along `dim`, and what takes n's place there for `count` indices.
struct Sizes {
  int64_t outer, n, inner, count;
};

Sizes SizesOf(const Shape& x, const Shape& indices, int64_t dim) {
  Sizes sizes{1, x[dim], 1, NumElements(indices)};
  for (int64_t d = 0; d < static_cast<int64_t>(x.size()); ++d)
    if (d != dim) (d < dim ? sizes.outer : sizes.inner) *= x[d];
  return sizes;
}

// The shape of x with the indices' dims in the place of `dim`.
Shape Gathered(const Shape& x, const Shape& indices, int64_t dim) {
  Shape shape(x.begin(), x.begin() + dim);
  shape.insert(shape.end(), indices.begin(), indices.end());
  shape.insert(shape.end(), x.begin() + dim + 1, x.end());
  return shape;
}

absl::Status CheckIndices(const Type& indices, const Type& x, int64_t dim) {
  if (!IsInteger(indices.dtype))
    return InvalidArgument("the indices are {}; they must be i32 or i64.", indices.ToString());
  RETURN_IF_ERROR(CheckDim("dim", dim, x));
  if (x.shape[dim] == 0 && indices.num_elements() > 0)
    return InvalidArgument("dim {} of {} is empty; the indices {} have nothing to name.", dim, x.ToString(),
                           indices.ToString());
  return absl::OkStatus();
}

// Letters of x: "anb", of the indices "AB", of x with these in n's place "aABb".
struct Terms {
  std::string x, indices, gathered;
};

Terms TermsOf(const Type& x, const Type& indices, int64_t dim) {
  Terms terms;
  for (int d = 0; d < indices.rank(); ++d) terms.indices += static_cast<char>('A' + d);
  for (int d = 0; d < x.rank(); ++d) {
    terms.x += static_cast<char>('a' + d);
    if (d == dim) terms.gathered += terms.indices;
    else terms.gathered += terms.x.back();
  }
  return terms;
}

// ---- gather

absl::StatusOr<std::vector<Type>> InferGather(const OpView& view) {
  const Type &x = view.operands[0], &indices = view.operands[1];
  const int64_t dim = view.attrs.Get<int64_t>("dim");
  RETURN_IF_ERROR(CheckIndices(indices, x, dim));
  return std::vector<Type>{{x.dtype, Gathered(x.shape, indices.shape, dim)}};
}

// A device that does not own a row gives zeros for it.
Rule GatherRule(const OpView& view) {
  const Terms terms = TermsOf(view.operands[0], view.operands[1], view.attrs.Get<int64_t>("dim"));
  const ReduceOp reduce = view.operands[0].dtype == BOOL ? ReduceOp::kOr : ReduceOp::kSum;
  return MakeRule(terms.x + "," + terms.indices + "->" + terms.gathered, view.operands, view.results,
                  MovesElements(Which::kFirst), reduce);
}

std::vector<Value> GatherGrad(const GradView& view) {
  const Value &x = view.operands[0], &indices = view.operands[1];
  return {ScatterAdd(view.result_grads[0], indices, x.shape(), view.attrs.Get<int64_t>("dim")), Value()};
}

// Copies elements [begin, end) of the result. `rows` are those of the dim that the device owns.
template <typename T, typename Index>
void GatherRange(const Sizes& s, int64_t last, const Extent& rows, const KernelArgs& args) {
  if (args.begin == args.end) return;  // of an empty result
  const T* x = args.In<T>(0);
  const Index* indices = args.In<Index>(1);
  int64_t at = args.begin % s.inner;
  int64_t i = args.begin / s.inner % s.count, a = args.begin / s.inner / s.count;
  for (int64_t to = args.begin; to < args.end;) {
    const int64_t n = std::min(s.inner - at, args.end - to);
    const int64_t row = std::clamp<int64_t>(indices[i], 0, last) - rows.start;
    T* out = args.Out<T>(0) + to;
    if (row >= 0 && row < rows.size) std::copy_n(x + (a * s.n + row) * s.inner + at, n, out);
    else std::fill_n(out, n, T{});
    to += n;
    at = 0;
    if (++i == s.count) i = 0, ++a;
  }
}

// Calls f with a zero of the C++ type of indices.
template <typename F>
Kernel DispatchIndex(DType dtype, F&& f) {
  return dtype == I64 ? f(int64_t{}) : f(int32_t{});
}

Kernel GatherCpu(const KernelSpec& spec) {
  const int64_t dim = spec.attrs.Get<int64_t>("dim");
  const Sizes sizes = SizesOf(spec.operands[0].local.shape, spec.operands[1].local.shape, dim);
  const int64_t last = spec.operands[0].global.shape[dim] - 1;
  return Dispatch(spec.results[0].local.dtype, [&](auto zero) {
    return DispatchIndex(spec.operands[1].local.dtype, [&](auto index) -> Kernel {
      return {.run =
                  [=](const KernelArgs& args) {
                    GatherRange<Stored<decltype(zero)>, decltype(index)>(sizes, last, args.in_blocks[0][dim],
                                                                         args);
                  },
              .units = spec.results[0].local.num_elements(),
              .by_rows = true};
    });
  });
}

// ---- scatter_add

absl::StatusOr<std::vector<Type>> InferScatterAdd(const OpView& view) {
  const Type &updates = view.operands[0], &indices = view.operands[1];
  const int64_t dim = view.attrs.Get<int64_t>("dim");
  const Type result{updates.dtype, ToShape(view.attrs.Get<Ints>("shape"))};
  if (updates.dtype == BOOL) return InvalidArgument("adds numbers, got {}.", updates.ToString());
  RETURN_IF_ERROR(CheckSize(result));
  RETURN_IF_ERROR(CheckIndices(indices, result, dim));
  const Type expected{updates.dtype, Gathered(result.shape, indices.shape, dim)};
  if (updates != expected)
    return InvalidArgument("the updates are {}; for indices {} along dim {} of {} they must be {}.",
                           updates.ToString(), indices.ToString(), dim, result.ToString(),
                           expected.ToString());
  return std::vector<Type>{result};
}

Rule ScatterAddRule(const OpView& view) {
  const Terms terms = TermsOf(view.results[0], view.operands[1], view.attrs.Get<int64_t>("dim"));
  return MakeRule(terms.gathered + "," + terms.indices + "->" + terms.x, view.operands, view.results,
                  Linear(Which::kFirst));
}

std::vector<Value> ScatterAddGrad(const GradView& view) {
  return {Gather(view.result_grads[0], view.operands[1], view.attrs.Get<int64_t>("dim")), Value()};
}

double ScatterAddFlops(const OpView& view) { return static_cast<double>(view.operands[0].num_elements()); }

// Whole numbers wrap around.
template <typename T>
T Sum(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  } else {
    return a + b;
  }
}

// A part of one [n, inner] slab of the result.
struct Tile {
  int64_t first_row, rows, first_column, columns;
};

// Adds to `sums` [tile.rows, tile.columns] the updates [count, inner] of the tile, in the order of the
// indices. `first` is the global index of the slab's first row.
template <typename T, typename Index>
void AddTile(const Sizes& s, int64_t last, int64_t first, const Tile& tile, const T* updates,
             const Index* indices, Compute<T>* sums) {
  std::fill_n(sums, tile.rows * tile.columns, Compute<T>(0));
  for (int64_t i = 0; i < s.count; ++i) {
    const int64_t row = std::clamp<int64_t>(indices[i], 0, last) - first - tile.first_row;
    if (row < 0 || row >= tile.rows) continue;
    const T* from = updates + i * s.inner + tile.first_column;
    Compute<T>* to = sums + row * tile.columns;
    MESHWORK_INDEPENDENT
    for (int64_t c = 0; c < tile.columns; ++c) to[c] = Sum<Compute<T>>(to[c], Load<T>(from[c]));
  }
}

// Rows [begin, end) of one slab. What is not stored as it is computed is summed tile by tile beside the
// result, so that it is rounded once.
template <typename T, typename Index>
void AddRows(const Sizes& s, int64_t last, int64_t first, int64_t begin, int64_t end, const T* updates,
             const Index* indices, T* out) {
  if constexpr (std::is_same_v<T, Compute<T>>) {
    AddTile<T>(s, last, first, {begin, end - begin, 0, s.inner}, updates, indices, out + begin * s.inner);
  } else {
    constexpr int64_t kTile = 8192;
    Compute<T> sums[kTile];
    const int64_t columns = std::min(s.inner, kTile), rows = kTile / std::max<int64_t>(columns, 1);
    for (int64_t row = begin; row < end; row += rows) {
      for (int64_t column = 0; column < s.inner; column += columns) {
        const Tile tile{row, std::min(rows, end - row), column, std::min(columns, s.inner - column)};
        AddTile<T>(s, last, first, tile, updates, indices, sums);
        for (int64_t r = 0; r < tile.rows; ++r)
          for (int64_t c = 0; c < tile.columns; ++c)
            out[(row + r) * s.inner + column + c] = T(sums[r * tile.columns + c]);
      }
    }
  }
}

template <typename T, typename Index>
Kernel ScatterAddKernel(const KernelSpec& spec) {
  const int64_t dim = spec.attrs.Get<int64_t>("dim");
  const Sizes s = SizesOf(spec.results[0].local.shape, spec.operands[1].local.shape, dim);
  const int64_t last = spec.results[0].global.shape[dim] - 1;
  // Every unit reads all indices of its slab and adds the updates of its own rows.
  return {.run = OnThisCpu([=](const KernelArgs& args) {
            const int64_t first = args.out_blocks[0][dim].start;
            for (int64_t at = args.begin; at < args.end;) {
              const int64_t slab = at / s.n, begin = at % s.n;
              const int64_t end = std::min(s.n, begin + args.end - at);
              AddRows(s, last, first, begin, end, args.In<T>(0) + slab * s.count * s.inner, args.In<Index>(1),
                      args.Out<T>(0) + slab * s.n * s.inner);
              at += end - begin;
            }
          }),
          .units = s.outer * s.n};
}

Kernel ScatterAddCpu(const KernelSpec& spec) {
  return Dispatch(spec.results[0].local.dtype, [&](auto zero) {
    return DispatchIndex(spec.operands[1].local.dtype, [&](auto index) -> Kernel {
      using T = decltype(zero);
      using Index = decltype(index);
      if constexpr (std::is_same_v<T, bool>) return {};
      else return ScatterAddKernel<T, Index>(spec);
    });
  });
}

// ---- Rows.

const std::vector<OpRow>& Rows() {
  static const auto* rows = new std::vector<OpRow>{
      {.name = "gather",
       .doc = "x[:, indices, :] along dim; an index out of range counts as the nearest",
       .num_operands = 2,
       .attrs = {{"dim", AttrKind::kInt}},
       .infer = InferGather,
       .rule = GatherRule,
       .grad = GatherGrad,
       .cpu = GatherCpu,
       .reads_block = true,
       .samples = {"f32[6,4], i32[3]; dim=0", "f64[4,6], i64[2,3]; dim=1", "f32[4,6], i32[]; dim=0",
                   "bf16[6,4], i64[4]; dim=0", "i32[2,4,3], i32[6]; dim=1", "bool[6,4], i32[4]; dim=0",
                   "i64[6], i64[2,2]; dim=0"},
       .sample_int_low = -2,
       .sample_int_high = 9},
      {.name = "scatter_add",
       .doc = "zeros of shape, to which the updates are added at the indices along dim, in their order",
       .num_operands = 2,
       .attrs = {{"shape", AttrKind::kInts, std::nullopt, /*is_result_shape=*/true}, {"dim", AttrKind::kInt}},
       .infer = InferScatterAdd,
       .rule = ScatterAddRule,
       .grad = ScatterAddGrad,
       .flops = ScatterAddFlops,
       .cpu = ScatterAddCpu,
       .reads_block = true,
       .samples = {"f32[3,4], i32[3]; shape=[6,4] dim=0", "f64[4,2,3], i64[2,3]; shape=[4,6] dim=1",
                   "f32[6], i32[]; shape=[4,6] dim=0", "bf16[4,6], i64[4]; shape=[6,6] dim=0",
                   "i32[2,6,3], i32[6]; shape=[2,4,3] dim=1", "i64[2,2], i64[2,2]; shape=[6] dim=0"},
       .sample_int_low = -2,
       .sample_int_high = 9},
  };
  return *rows;
}

}  // namespace

std::span<const OpRow> GatherOps() { return Rows(); }

Value Gather(const Operand& x, const Operand& indices, int64_t dim) {
  return AddOp("gather", {x, indices}, {{"dim", dim}});
}
Value ScatterAdd(const Operand& updates, const Operand& indices, const Shape& shape, int64_t dim) {
  return AddOp("scatter_add", {updates, indices}, {{"shape", ToInts(shape)}, {"dim", dim}});
}

}  // namespace meshwork
