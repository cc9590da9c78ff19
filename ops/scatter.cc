// Scatters that do not add: scatter_max and scatter_min, whose results consist of updates alone, like
// scatter_add's; and scatter_update, which replaces elements of x by updates.
//
// Indices are clamped as in gather.cc. Along a sharded dim each device keeps the updates of the rows that it
// owns. Maxima of sharded updates are maxima over the devices; parts of the updates do not show which update
// is the last one, so scatter_update takes all of them on every device.
#include "meshwork/ops/kernels/scatter.h"

#include <algorithm>

#include "meshwork/base/status.h"
#include "meshwork/ir/builder.h"
#include "meshwork/ops/elementwise.h"
#include "meshwork/ops/families.h"
#include "meshwork/ops/kernels/indexing.h"
#include "meshwork/ops/kernels/reduce.h"
#include "meshwork/ops/ops.h"

namespace meshwork {
namespace {

using Ints = std::vector<int64_t>;

// ---- scatter_max, scatter_min

absl::StatusOr<std::vector<Type>> InferScatterExtremum(const OpView& view) {
  const Type& updates = view.operands[0];
  if (updates.dtype == BOOL) return InvalidArgument("takes numbers, got {}.", updates.ToString());
  return InferScatter(view);
}

template <ReduceOp op>
Rule ScatterExtremumRule(const OpView& view) {
  const IndexedTerms terms = TermsOf(view.results[0], view.operands[1], view.attrs.Get<int64_t>("dim"));
  return MakeRule(terms.indexed + "," + terms.indices + "->" + terms.x, view.operands, view.results,
                  {{Which::kFirst, op, op}}, op);
}

// Updates equal to the extremum of their place share its gradient equally.
std::vector<Value> ScatterExtremumGrad(const GradView& view) {
  const Value &updates = view.operands[0], &indices = view.operands[1];
  const DType dtype = updates.dtype();
  if (!IsFloat(dtype)) return {Value(), Value()};
  const int64_t dim = view.attrs.Get<int64_t>("dim");
  const Value is_it = Equal(updates, Gather(view.results[0], indices, dim));
  const Value count = ScatterAdd(Cast(is_it, dtype), indices, view.results[0].shape(), dim);
  return {Select(is_it, Gather(Div(view.result_grads[0], count), indices, dim), 0.0), Value()};
}

template <typename T, typename Index, typename F>
Kernel ScatterExtremumKernel(const KernelSpec& spec, F) {
  const int64_t dim = spec.attrs.Get<int64_t>("dim");
  const IndexedSizes s = SizesOf(spec.results[0].local.shape, spec.operands[1].local.shape, dim);
  const int64_t last = spec.results[0].global.shape[dim] - 1;
  return {.run = OnThisCpu<kMostLevel<T>>([=](const KernelArgs& args) {
            const Index* indices = args.In<Index>(1);
            const int64_t own = args.out_blocks[0][dim].start;
            ForEachRowOfSlabs(s.n, args.begin, args.end, [&](int64_t slab, int64_t begin, int64_t end) {
              const T* updates = args.In<T>(0) + slab * s.count * s.inner;
              T* out = args.Out<T>(0) + slab * s.n * s.inner;
              std::fill(out + begin * s.inner, out + end * s.inner, static_cast<T>(F::Identity()));
              for (int64_t i = 0; i < s.count; ++i) {
                const int64_t row = std::clamp<int64_t>(indices[i], 0, last) - own;
                if (row < begin || row >= end) continue;
                MESHWORK_INDEPENDENT
                for (int64_t c = 0; c < s.inner; ++c)
                  out[row * s.inner + c] =
                      static_cast<T>(F::Apply(out[row * s.inner + c], updates[i * s.inner + c]));
              }
            });
          }),
          .units = s.outer * s.n};
}

template <template <typename> typename F>
Kernel ScatterExtremumCpu(const KernelSpec& spec) {
  return Dispatch(spec.results[0].local.dtype, [&](auto zero) {
    return DispatchIndex(spec.operands[1].local.dtype, [&](auto index) -> Kernel {
      using T = decltype(zero);
      if constexpr (std::is_same_v<T, bool>) return {};
      else return ScatterExtremumKernel<T, decltype(index)>(spec, F<Compute<T>>{});
    });
  });
}

// ---- scatter_update: indices, x, updates

absl::StatusOr<std::vector<Type>> InferScatterUpdate(const OpView& view) {
  const Type &indices = view.operands[0], &x = view.operands[1], &updates = view.operands[2];
  const int64_t dim = view.attrs.Get<int64_t>("dim");
  MESHWORK_RETURN_IF_ERROR(CheckIndices(indices, x, dim));
  MESHWORK_RETURN_IF_ERROR(CheckIndexedUpdates(updates, indices, x, dim));
  return std::vector<Type>{x};
}

std::string AllWhole(const std::string& letters) {
  std::string whole;
  for (char letter : letters) whole += {letter, '!'};
  return whole;
}

Rule ScatterUpdateRule(const OpView& view) {
  const IndexedTerms terms = TermsOf(view.operands[1], view.operands[0], view.attrs.Get<int64_t>("dim"));
  const DType dtype = view.results[0].dtype;
  return MakeRule(AllWhole(terms.indices) + "," + terms.x + "," + terms.indexed + "->" + terms.x,
                  view.operands, view.results,
                  MovesElements(Which::kAllButFirst) + Grows(Which::kOneButFirst, dtype, dtype));
}

// Overwritten elements have no gradient: elements of x that have an update, and all updates of a place but
// the last one, which is the one with the largest number.
std::vector<Value> ScatterUpdateGrad(const GradView& view) {
  const Value &indices = view.operands[0], &x = view.operands[1], &updates = view.operands[2];
  const Value& g = view.result_grads[0];
  if (!IsFloat(x.dtype())) return {Value(), Value(), Value()};
  const int64_t dim = view.attrs.Get<int64_t>("dim");
  Graph& graph = *x.graph();
  const Type zeros = updates.type();  // a copy: the graph grows
  const Shape places = indices.shape();
  Ints dims(places.size());
  for (size_t d = 0; d < dims.size(); ++d) dims[d] = dim + static_cast<int64_t>(d);
  const Value number = Reshape(Iota(graph, {I64, {NumElements(places)}}, 0), places);
  const Value last = ScatterMax(number, indices, {x.shape()[dim]}, 0);
  const Value is_last = BroadcastTo(Equal(number, Gather(last, indices, 0)), zeros.shape, dims);
  return {Value(), ScatterUpdate(g, Constant(graph, 0.0, zeros), indices, dim),
          Select(is_last, Gather(g, indices, dim), 0.0)};
}

template <typename T, typename Index>
Kernel ScatterUpdateKernel(const KernelSpec& spec) {
  const int64_t dim = spec.attrs.Get<int64_t>("dim");
  const IndexedSizes s = SizesOf(spec.results[0].local.shape, spec.operands[0].local.shape, dim);
  const int64_t last = spec.results[0].global.shape[dim] - 1;
  return {.run =
              [=](const KernelArgs& args) {
                const Index* indices = args.In<Index>(0);
                const int64_t own = args.out_blocks[0][dim].start;
                ForEachRowOfSlabs(s.n, args.begin, args.end, [&](int64_t slab, int64_t begin, int64_t end) {
                  const T* x = args.In<T>(1) + slab * s.n * s.inner;
                  const T* updates = args.In<T>(2) + slab * s.count * s.inner;
                  T* out = args.Out<T>(0) + slab * s.n * s.inner;
                  if (out != x) std::copy(x + begin * s.inner, x + end * s.inner, out + begin * s.inner);
                  for (int64_t i = 0; i < s.count; ++i) {
                    const int64_t row = std::clamp<int64_t>(indices[i], 0, last) - own;
                    if (row >= begin && row < end)
                      std::copy_n(updates + i * s.inner, s.inner, out + row * s.inner);
                  }
                });
              },
          .units = s.outer * s.n};
}

Kernel ScatterUpdateCpu(const KernelSpec& spec) {
  return Dispatch(spec.results[0].local.dtype, [&](auto zero) {
    return DispatchIndex(spec.operands[0].local.dtype, [&](auto index) {
      return ScatterUpdateKernel<Stored<decltype(zero)>, decltype(index)>(spec);
    });
  });
}

// ---- Rows.

OpRow ScatterExtremumRow(std::string_view name, std::string_view doc, Rule (*rule)(const OpView&),
                         KernelFactory cpu) {
  return {
      .name = name,
      .doc = doc,
      .num_operands = 2,
      .attrs = {{"shape", AttrKind::kInts, std::nullopt, /*is_result_shape=*/true}, {"dim", AttrKind::kInt}},
      .infer = InferScatterExtremum,
      .rule = rule,
      .grad = ScatterExtremumGrad,
      .flops = ScatterFlops,
      .cpu = cpu,
      .reads_block = true,
      .samples = {"f32[3,4], i32[3]; shape=[6,4] dim=0", "f64[4,2,3], i64[2,3]; shape=[4,6] dim=1",
                  "bf16[4,6], i64[4]; shape=[6,6] dim=0", "i32[2,6,3], i32[6]; shape=[2,4,3] dim=1",
                  "i64[2,2], i64[2,2]; shape=[6] dim=0"},
      .sample_int_low = -2,
      .sample_int_high = 9};
}

}  // namespace

std::span<const OpRow> ScatterOps() {
  static const auto* rows = new std::vector<OpRow>{
      ScatterExtremumRow(
          "scatter_max",
          "the maximum of the updates at each place of shape along dim; -∞, or the least whole "
          "number, where there is none",
          ScatterExtremumRule<ReduceOp::kMax>, ScatterExtremumCpu<MaxOf>),
      ScatterExtremumRow("scatter_min",
                         "the minimum of the updates at each place of shape along dim; ∞, or the largest "
                         "whole number, where there is none",
                         ScatterExtremumRule<ReduceOp::kMin>, ScatterExtremumCpu<MinOf>),
      {.name = "scatter_update",
       .doc =
           "of indices, x and updates: x with the updates at the indices along dim; the last in order stays",
       .num_operands = 3,
       .attrs = {{"dim", AttrKind::kInt}},
       .infer = InferScatterUpdate,
       .rule = ScatterUpdateRule,
       .grad = ScatterUpdateGrad,
       .cpu = ScatterUpdateCpu,
       .reads_block = true,
       .in_place = {1},
       .samples = {"i32[3], f32[6,4], f32[3,4]; dim=0", "i64[2,3], f64[4,6], f64[4,2,3]; dim=1",
                   "i32[], f32[4,6], f32[6]; dim=0", "i64[4], bf16[6,2], bf16[4,2]; dim=0",
                   "i32[6], i32[2,4,3], i32[2,6,3]; dim=1", "i32[4], bool[6,2], bool[4,2]; dim=0",
                   "i64[2], i64[6], i64[2]; dim=0"},
       .sample_int_low = -2,
       .sample_int_high = 9},
  };
  return *rows;
}

Value ScatterMax(const Operand& updates, const Operand& indices, const Shape& shape, int64_t dim) {
  return AddOp("scatter_max", {updates, indices},
               {{"shape", ToInts(shape)}, {"dim", FromFront(dim, std::ssize(shape))}});
}
Value ScatterMin(const Operand& updates, const Operand& indices, const Shape& shape, int64_t dim) {
  return AddOp("scatter_min", {updates, indices},
               {{"shape", ToInts(shape)}, {"dim", FromFront(dim, std::ssize(shape))}});
}
Value ScatterUpdate(const Operand& x, const Operand& updates, const Operand& indices, int64_t dim) {
  return AddOp("scatter_update", {indices, x, updates}, {{"dim", FromFront(dim, x.value().rank())}});
}

}  // namespace meshwork
