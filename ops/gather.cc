// The gather family: gather reads rows by index, scatter_add is its transpose.
//
// Indices are clamped to the dim, as in StableHLO. Along a sharded dim each device serves the indices whose
// rows it owns, so that gather's result is a sum over the devices and scatter_add's result is sharded.
#include <algorithm>

#include "meshwork/base/status.h"
#include "meshwork/ir/builder.h"
#include "meshwork/ops/families.h"
#include "meshwork/ops/kernels/elementwise.h"
#include "meshwork/ops/kernels/identity.h"
#include "meshwork/ops/kernels/indexing.h"
#include "meshwork/ops/kernels/scatter.h"
#include "meshwork/ops/ops.h"

namespace meshwork {
namespace {

// ---- gather

absl::StatusOr<std::vector<Type>> InferGather(const OpView& view) {
  const Type &x = view.operands[0], &indices = view.operands[1];
  const int64_t dim = view.attrs.Get<int64_t>("dim");
  MESHWORK_RETURN_IF_ERROR(CheckIndices(indices, x, dim));
  return std::vector<Type>{{x.dtype, IndexedShape(x.shape, indices.shape, dim)}};
}

// A device that does not own a row gives a row for it that adds nothing.
Rule GatherRule(const OpView& view) {
  const IndexedTerms terms = TermsOf(view.operands[0], view.operands[1], view.attrs.Get<int64_t>("dim"));
  const ReduceOp reduce = view.operands[0].dtype == BOOL ? ReduceOp::kOr : ReduceOp::kSum;
  return MakeRule(terms.x + "," + terms.indices + "->" + terms.indexed, view.operands, view.results,
                  MovesElements(Which::kFirst), reduce);
}

std::vector<Value> GatherGrad(const GradView& view) {
  const Value &x = view.operands[0], &indices = view.operands[1];
  return {ScatterAdd(view.result_grads[0], indices, x.shape(), view.attrs.Get<int64_t>("dim")), Value()};
}

// Copies elements [begin, end) of the result. `rows` are those of the dim that the device owns.
template <typename T, typename Index>
void GatherRange(const IndexedSizes& s, int64_t last, const Extent& rows, const KernelArgs& args) {
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
    else std::fill_n(out, n, IdentityOf<T>(ReduceOp::kSum));
    to += n;
    at = 0;
    if (++i == s.count) i = 0, ++a;
  }
}

Kernel GatherCpu(const KernelSpec& spec) {
  const int64_t dim = spec.attrs.Get<int64_t>("dim");
  const IndexedSizes sizes = SizesOf(spec.operands[0].local.shape, spec.operands[1].local.shape, dim);
  const int64_t last = spec.operands[0].global.shape[dim] - 1;
  return DispatchAny(spec.results[0].local.dtype, [&](auto zero) {
    return DispatchIndex(spec.operands[1].local.dtype, [&](auto index) -> Kernel {
      return {.run =
                  [=](const KernelArgs& args) {
                    GatherRange<Stored<decltype(zero)>, decltype(index)>(sizes, last, args.in_blocks[0][dim],
                                                                         args);
                  },
              .units = spec.results[0].local.num_elements(),
              .by_rows = true,
              .parts = {std::max<int64_t>(sizes.outer, 1),
                        sizes.outer == 1 ? std::max<int64_t>(sizes.count, 1) : 1}};
    });
  });
}

// Puts the dims in front of the spec's own. This fits indices, and tensors with a row for each index.
void LeadWith(const StackDims& dims, TensorSpec& spec) {
  Shape sizes;
  for (const StackDim& dim : dims) sizes.push_back(dim.size);
  spec.local.shape.insert(spec.local.shape.begin(), sizes.begin(), sizes.end());
  spec.global.shape.insert(spec.global.shape.begin(), sizes.size(), 1);
}

// A lookup of the rows of a spec whose `dim` is behind the dims. REQUIRES: devices hold the whole dim of `table`.
KernelSpec BehindDims(KernelSpec spec, const StackDims& dims) {
  spec.attrs.Set("dim", spec.attrs.Get<int64_t>("dim") + std::ssize(dims));
  return spec;
}
bool IsWholeAlong(const KernelSpec& spec, const TensorSpec& table) {
  const int64_t dim = spec.attrs.Get<int64_t>("dim");
  return table.local.shape[dim] == table.global.shape[dim];
}
// Whether `operand`, 0 or 1, varies along all dims and the other one along none.
bool AloneVaries(const StackDims& dims, size_t operand) {
  return std::all_of(dims.begin(), dims.end(), [&](const StackDim& dim) {
    return dim.varies[operand] && !dim.varies[1 - operand] && !dim.reduced.has_value();
  });
}

// If all instances look up one table, they become one lookup of more indices. If all have the same indices and a table
// each, they become one lookup in tables that lie side by side.
std::optional<KernelSpec> StackGather(const KernelSpec& spec, const StackDims& dims) {
  KernelSpec stacked = spec;
  LeadWith(dims, stacked.results[0]);
  if (AloneVaries(dims, 1) && spec.attrs.Get<int64_t>("dim") == 0) {
    LeadWith(dims, stacked.operands[1]);
    return stacked;
  }
  if (!AloneVaries(dims, 0) || !IsWholeAlong(spec, spec.operands[0])) return std::nullopt;
  LeadWith(dims, stacked.operands[0]);
  return BehindDims(std::move(stacked), dims);
}

// ---- scatter_add

absl::StatusOr<std::vector<Type>> InferScatterAdd(const OpView& view) {
  const Type& updates = view.operands[0];
  if (updates.dtype == BOOL) return InvalidArgument("adds numbers, got {}.", updates.ToString());
  return InferScatter(view);
}

Rule ScatterAddRule(const OpView& view) {
  const IndexedTerms terms = TermsOf(view.results[0], view.operands[1], view.attrs.Get<int64_t>("dim"));
  return MakeRule(terms.indexed + "," + terms.indices + "->" + terms.x, view.operands, view.results,
                  Linear(Which::kFirst));
}

std::vector<Value> ScatterAddGrad(const GradView& view) {
  return {Gather(view.result_grads[0], view.operands[1], view.attrs.Get<int64_t>("dim")), Value()};
}

// Where all instances add to one table, their updates become updates of one scatter_add. Where each adds to a table of
// its own, and all at the same indices, the tables lie side by side as one.
std::optional<KernelSpec> StackScatterAdd(const KernelSpec& spec, const StackDims& dims) {
  const bool is_one_table = std::all_of(dims.begin(), dims.end(), [](const StackDim& dim) {
    return dim.reduced == ReduceOp::kSum && dim.varies[0] && dim.varies[1];
  });
  KernelSpec stacked = spec;
  LeadWith(dims, stacked.operands[0]);
  if (is_one_table && spec.attrs.Get<int64_t>("dim") == 0) {
    LeadWith(dims, stacked.operands[1]);
    return stacked;
  }
  if (!AloneVaries(dims, 0) || !IsWholeAlong(spec, spec.results[0])) return std::nullopt;
  LeadWith(dims, stacked.results[0]);
  return BehindDims(std::move(stacked), dims);
}

template <typename T, typename Index>
Kernel ScatterAddKernel(const KernelSpec& spec) {
  const int64_t dim = spec.attrs.Get<int64_t>("dim");
  const IndexedSizes s = SizesOf(spec.results[0].local.shape, spec.operands[1].local.shape, dim);
  const int64_t last = spec.results[0].global.shape[dim] - 1;
  // Every unit reads all indices of its slab and adds the updates of its own rows.
  return {.run = OnThisCpu<kMostLevel<T>>([=](const KernelArgs& args) {
            const Index* indices = args.In<Index>(1);
            const int64_t own = args.out_blocks[0][dim].start;
            const auto row_of = [&](int64_t i) { return std::clamp<int64_t>(indices[i], 0, last) - own; };
            ForEachRowOfSlabs(s.n, args.begin, args.end, [&](int64_t slab, int64_t begin, int64_t end) {
              AddRows<T>(s.count, s.inner, begin, end, args.In<T>(0) + slab * s.count * s.inner, row_of,
                         args.Out<T>(0) + slab * s.n * s.inner);
            });
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

}  // namespace

std::span<const OpRow> GatherOps() {
  static const auto* rows = new std::vector<OpRow>{
      {.name = "gather",
       .doc = "x[:, indices, :] along dim; an index out of range counts as the nearest",
       .num_operands = 2,
       .attrs = {{"dim", AttrKind::kInt}},
       .takes_storage = true,
       .infer = InferGather,
       .rule = GatherRule,
       .grad = GatherGrad,
       .cpu = GatherCpu,
       .stack = StackGather,
       .reads_block = true,
       .samples = {"f32[6,4], i32[3]; dim=0", "f64[4,6], i64[2,3]; dim=1", "f32[4,6], i32[]; dim=0",
                   "bf16[6,4], i64[4]; dim=0", "u8[6,4], i32[4]; dim=0", "i32[2,4,3], i32[6]; dim=1",
                   "bool[6,4], i32[4]; dim=0", "i64[6], i64[2,2]; dim=0"},
       .sample_int_low = -2,
       .sample_int_high = 9},
      {.name = "scatter_add",
       .doc = "zeros of shape, to which the updates are added at the indices along dim, in their order",
       .num_operands = 2,
       .attrs = {{"shape", AttrKind::kInts, std::nullopt, /*is_result_shape=*/true}, {"dim", AttrKind::kInt}},
       .infer = InferScatterAdd,
       .rule = ScatterAddRule,
       .grad = ScatterAddGrad,
       .flops = ScatterFlops,
       .cpu = ScatterAddCpu,
       .stack = StackScatterAdd,
       .reads_block = true,
       .samples = {"f32[3,4], i32[3]; shape=[6,4] dim=0", "f64[4,2,3], i64[2,3]; shape=[4,6] dim=1",
                   "f32[6], i32[]; shape=[4,6] dim=0", "bf16[4,6], i64[4]; shape=[6,6] dim=0",
                   "i32[2,6,3], i32[6]; shape=[2,4,3] dim=1", "i64[2,2], i64[2,2]; shape=[6] dim=0"},
       .sample_int_low = -2,
       .sample_int_high = 9},
  };
  return *rows;
}

Value Gather(const Operand& x, const Operand& indices, int64_t dim) {
  return AddOpAlong("gather", {x, indices}, dim);
}
Value ScatterAdd(const Operand& updates, const Operand& indices, const Shape& shape, int64_t dim) {
  return AddOp("scatter_add", {updates, indices},
               {{"shape", ToInts(shape)}, {"dim", FromFront(dim, std::ssize(shape))}});
}

}  // namespace meshwork
