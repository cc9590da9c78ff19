// The family of places along a dim: take_along_dim reads an element per index, scatter_add_along_dim is its
// transpose. Operands and results have the same dims, all equal but for this one.
//
// Indices are clamped to the dim. Along a sharded dim each device serves the indices that it owns, as in
// gather.cc.
#include <algorithm>
#include <array>

#include "meshwork/base/status.h"
#include "meshwork/ir/builder.h"
#include "meshwork/ops/families.h"
#include "meshwork/ops/kernels/columns.h"
#include "meshwork/ops/kernels/elementwise.h"
#include "meshwork/ops/kernels/identity.h"
#include "meshwork/ops/kernels/indexing.h"
#include "meshwork/ops/kernels/portable/arithmetic.h"
#include "meshwork/ops/ops.h"

namespace meshwork {
namespace {

using Ints = std::vector<int64_t>;

// `along` has the dims of `type` but for dim `dim`, which may be of any size.
absl::Status CheckAlong(const Type& indices, const Type& type, int64_t dim) {
  if (!IsInteger(indices.dtype))
    return InvalidArgument("the indices are {}; they must be i32 or i64.", indices.ToString());
  MESHWORK_RETURN_IF_ERROR(CheckDim("dim", dim, type));
  Shape expected = type.shape;
  if (indices.rank() == type.rank()) expected[dim] = indices.shape[dim];
  if (indices.shape != expected)
    return InvalidArgument("the indices are {}; along dim {} of {} all other dims must be equal.",
                           indices.ToString(), dim, type.ToString());
  if (type.shape[dim] == 0 && indices.num_elements() > 0)
    return InvalidArgument("dim {} of {} is empty; the indices {} have nothing to name.", dim,
                           type.ToString(), indices.ToString());
  return absl::OkStatus();
}

// Letters of a type, that of `dim` replaced by `other`.
std::string LettersOf(const Type& type, int64_t dim, char other) {
  std::string letters;
  for (int64_t d = 0; d < type.rank(); ++d) letters += d == dim ? other : static_cast<char>('a' + d);
  return letters;
}

// ---- take_along_dim

absl::StatusOr<std::vector<Type>> InferTakeAlongDim(const OpView& view) {
  const Type &x = view.operands[0], &indices = view.operands[1];
  MESHWORK_RETURN_IF_ERROR(CheckAlong(indices, x, view.attrs.Get<int64_t>("dim")));
  return std::vector<Type>{{x.dtype, indices.shape}};
}

// A device that does not own an element gives a value for it that adds nothing.
Rule TakeAlongDimRule(const OpView& view) {
  const int64_t dim = view.attrs.Get<int64_t>("dim");
  const std::string x = LettersOf(view.operands[0], dim, 'Z'), taken = LettersOf(view.operands[0], dim, 'Y');
  const ReduceOp reduce = view.operands[0].dtype == BOOL ? ReduceOp::kOr : ReduceOp::kSum;
  return MakeRule(x + "," + taken + "->" + taken, view.operands, view.results, MovesElements(Which::kFirst),
                  reduce);
}

std::vector<Value> TakeAlongDimGrad(const GradView& view) {
  return {ScatterAddAlongDim(view.result_grads[0], view.operands[1], view.operands[0].shape(),
                             view.attrs.Get<int64_t>("dim")),
          Value()};
}

template <typename T, typename Index>
Kernel TakeKernel(const KernelSpec& spec) {
  const int64_t dim = spec.attrs.Get<int64_t>("dim");
  const ColumnSizes to(spec.results[0].local.shape, dim), from(spec.operands[0].local.shape, dim);
  const int64_t last = spec.operands[0].global.shape[dim] - 1;
  return {.run =
              [=](const KernelArgs& args) {
                const Extent own = args.in_blocks[0][dim];
                const T* x = args.In<T>(0);
                const Index* indices = args.In<Index>(1);
                T* out = args.Out<T>(0);
                const T missing = IdentityOf<T>(ReduceOp::kSum);
                for (int64_t i = args.begin; i < args.end; ++i) {
                  const int64_t o = i / to.inner / to.n, c = i % to.inner;
                  const int64_t at = std::clamp<int64_t>(indices[i], 0, last) - own.start;
                  out[i] = at >= 0 && at < own.size ? x[(o * from.n + at) * from.inner + c] : missing;
                }
              },
          .units = spec.results[0].local.num_elements(),
          .by_rows = true,
          .parts = {to.outer, spec.results[0].local.num_elements()}};
}

Kernel TakeAlongDimCpu(const KernelSpec& spec) {
  return DispatchAny(spec.results[0].local.dtype, [&](auto zero) {
    return DispatchIndex(spec.operands[1].local.dtype, [&](auto index) {
      return TakeKernel<Stored<decltype(zero)>, decltype(index)>(spec);
    });
  });
}

// ---- scatter_add_along_dim

absl::StatusOr<std::vector<Type>> InferScatterAddAlongDim(const OpView& view) {
  const Type &updates = view.operands[0], &indices = view.operands[1];
  const Type result{updates.dtype, ToShape(view.attrs.Get<Ints>("shape"))};
  if (updates.dtype == BOOL) return InvalidArgument("adds numbers, got {}.", updates.ToString());
  MESHWORK_RETURN_IF_ERROR(CheckSize(result));
  MESHWORK_RETURN_IF_ERROR(CheckAlong(indices, result, view.attrs.Get<int64_t>("dim")));
  if (updates.shape != indices.shape)
    return InvalidArgument("the updates are {}, the indices {}; there is an index for each update.",
                           updates.ToString(), indices.ToString());
  return std::vector<Type>{result};
}

Rule ScatterAddAlongDimRule(const OpView& view) {
  const int64_t dim = view.attrs.Get<int64_t>("dim");
  const std::string to = LettersOf(view.results[0], dim, 'Z'), given = LettersOf(view.results[0], dim, 'Y');
  return MakeRule(given + "," + given + "->" + to, view.operands, view.results, Linear(Which::kFirst));
}

std::vector<Value> ScatterAddAlongDimGrad(const GradView& view) {
  return {TakeAlongDim(view.result_grads[0], view.operands[1], view.attrs.Get<int64_t>("dim")), Value()};
}

// The part of the result that one call of AddColumns adds up: rows [first, first + rows) of the block's dim,
// columns [begin, end).
struct Part {
  int64_t first, rows, begin, end;
};

// Sets `sums`, [rows, stride] with `stride` from row to row, to the updates [m, inner] of its rows and
// columns, added in the order of the indices.
template <typename T, typename Index>
void AddColumns(const Part& part, int64_t m, int64_t inner, int64_t own, int64_t last, const T* updates,
                const Index* indices, Compute<T>* sums, int64_t stride) {
  const int64_t count = part.end - part.begin;
  for (int64_t r = 0; r < part.rows; ++r) std::fill_n(sums + r * stride, count, Compute<T>(0));
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t c = 0; c < count; ++c) {
      const int64_t from = i * inner + part.begin + c;
      const int64_t row = std::clamp<int64_t>(indices[from], 0, last) - own - part.first;
      if (row >= 0 && row < part.rows)
        sums[row * stride + c] = portable::Sum<Compute<T>>(sums[row * stride + c], updates[from]);
    }
  }
}

// If elements are computed in another type than they are stored in, they are summed outside of the result, a
// part at a time, and rounded once.
template <typename T, typename Index>
void AddSlab(int64_t n, int64_t m, int64_t inner, int64_t begin, int64_t end, int64_t own, int64_t last,
             const T* updates, const Index* indices, T* out) {
  if constexpr (std::is_same_v<T, Compute<T>>) {
    AddColumns<T>({0, n, begin, end}, m, inner, own, last, updates, indices, out + begin, inner);
  } else {
    constexpr int64_t kRows = 256, kColumns = 16;
    std::array<Compute<T>, kRows * kColumns> sums;
    for (int64_t first = 0; first < n; first += kRows) {
      for (int64_t c = begin; c < end; c += kColumns) {
        const Part part{first, std::min(kRows, n - first), c, std::min(c + kColumns, end)};
        AddColumns<T>(part, m, inner, own, last, updates, indices, sums.data(), kColumns);
        for (int64_t r = 0; r < part.rows; ++r)
          for (int64_t i = 0; i < part.end - c; ++i)
            out[(first + r) * inner + c + i] = T(sums[r * kColumns + i]);
      }
    }
  }
}

template <typename T, typename Index>
Kernel ScatterKernel(const KernelSpec& spec) {
  const int64_t dim = spec.attrs.Get<int64_t>("dim");
  const ColumnSizes to(spec.results[0].local.shape, dim);
  const int64_t m = spec.operands[0].local.shape[dim], last = spec.results[0].global.shape[dim] - 1;
  return ColumnKernel(to, 2, [=](const KernelArgs& args) {
    ForEachSlab(to, args.begin, args.end, [&](int64_t o, int64_t begin, int64_t end) {
      AddSlab<T, Index>(to.n, m, to.inner, begin, end, args.out_blocks[0][dim].start, last,
                        args.In<T>(0) + o * m * to.inner, args.In<Index>(1) + o * m * to.inner,
                        args.Out<T>(0) + o * to.n * to.inner);
    });
  });
}

Kernel ScatterAddAlongDimCpu(const KernelSpec& spec) {
  return Dispatch(spec.results[0].local.dtype, [&](auto zero) {
    return DispatchIndex(spec.operands[1].local.dtype, [&](auto index) -> Kernel {
      using T = decltype(zero);
      if constexpr (std::is_same_v<T, bool>) return {};
      else return ScatterKernel<T, decltype(index)>(spec);
    });
  });
}

// ---- Rows.

}  // namespace

std::span<const OpRow> AlongDimOps() {
  static const auto* rows = new std::vector<OpRow>{
      {.name = "take_along_dim",
       .doc = "y[a,i,b] = x[a,indices[a,i,b],b], i along dim; an index out of range counts as the nearest",
       .num_operands = 2,
       .attrs = {{"dim", AttrKind::kInt}},
       .takes_storage = true,
       .infer = InferTakeAlongDim,
       .rule = TakeAlongDimRule,
       .grad = TakeAlongDimGrad,
       .cpu = TakeAlongDimCpu,
       .reads_block = true,
       .samples = {"f32[4,6], i32[4,3]; dim=1", "f64[4,6], i64[2,6]; dim=0", "bf16[2,4,3], i32[2,6,3]; dim=1",
                   "i32[5], i64[5]; dim=0", "i64[4,2], i32[4,2]; dim=1", "bool[4,6], i32[4,4]; dim=1"},
       .sample_int_low = -2,
       .sample_int_high = 9},
      {.name = "scatter_add_along_dim",
       .doc = "zeros of shape, to which updates[a,i,b] is added at [a,indices[a,i,b],b], in the order of i",
       .num_operands = 2,
       .attrs = {{"shape", AttrKind::kInts, std::nullopt, /*is_result_shape=*/true}, {"dim", AttrKind::kInt}},
       .infer = InferScatterAddAlongDim,
       .rule = ScatterAddAlongDimRule,
       .grad = ScatterAddAlongDimGrad,
       .flops = ScatterFlops,
       .cpu = ScatterAddAlongDimCpu,
       .reads_block = true,
       .samples = {"f32[4,3], i32[4,3]; shape=[4,6] dim=1", "f64[4,6], i64[4,6]; shape=[2,6] dim=0",
                   "bf16[2,6,3], i32[2,6,3]; shape=[2,4,3] dim=1", "i32[5], i64[5]; shape=[3] dim=0",
                   "i64[4,2], i32[4,2]; shape=[4,4] dim=1"},
       .sample_int_low = -2,
       .sample_int_high = 9},
  };
  return *rows;
}

Value TakeAlongDim(const Operand& x, const Operand& indices, int64_t dim) {
  return AddOpAlong("take_along_dim", {x, indices}, dim);
}
Value ScatterAddAlongDim(const Operand& updates, const Operand& indices, const Shape& shape, int64_t dim) {
  return AddOp("scatter_add_along_dim", {updates, indices},
               {{"shape", ToInts(shape)}, {"dim", FromFront(dim, std::ssize(shape))}});
}

}  // namespace meshwork
