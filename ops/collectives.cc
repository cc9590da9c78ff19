// The collectives and the two block-local ops that Localize writes. They exist only in local
// programs, where a value's layout says which part of its global value each device holds:
//
//   all_reduce          {a | sum:x} -> {a}        any number of values at once (a bucket)
//   reduce_scatter      {_ | sum:x} -> {x}        any number of values at once
//   all_gather          {x} -> {_}                any number; x is the minor axis of the dim
//   all_to_all          {x,_} -> {_,x}            x is the minor axis of both
//   all_to_all_v        {x,y} -> {y,x}            any whole movement: parts of blocks go straight where they
//                                                 are needed, so many elements as there are
//   collective_permute  {(x,y)} -> {(y,x)}        blocks move whole
//   exchange            {x} -> {x}                each device receives what its block is put together of:
//                                                 slices, joins, halos (ir/exchange.h)
//   shard_slice         {_} -> {x}                each device keeps its own part: no communication
//   mask_padding        {x} -> {x}                padding becomes the identity of `op`
//   widen, narrow       {x} -> {x}                bf16 as f32 while sums of it are owed, and rounded
//   keep_first          {_} -> {_ | sum:x}        the first device along x keeps its block, the others
//                                                 have -0, which adds nothing: no communication. What a
//                                                 loop adds to begins so (ops/control/control_flow.h)
//
// The runtime carries them out by the layouts of operand and result (see runtime/plan/collective.h).
#include <algorithm>

#include "meshwork/base/status.h"
#include "meshwork/ir/builder.h"
#include "meshwork/ops/elementwise.h"
#include "meshwork/ops/families.h"
#include "meshwork/ops/kernels/identity.h"
#include "meshwork/ops/ops.h"

namespace meshwork {
namespace {

using Ints = std::vector<int64_t>;

absl::StatusOr<std::vector<Type>> InferLocalOnly(const OpView&) {
  return InvalidArgument(
      "exists only in local programs; in a global program ask for a layout with relayout.");
}

// Copies the valid elements along the masked dims, fills the rest with the identity. A unit is a row. The
// dims from the last masked one on form a piece: its first elements are valid, the others are padding.
template <typename T>
Kernel MaskPaddingKernel(const KernelSpec& spec) {
  Shape shape = spec.results[0].local.shape;
  if (shape.empty()) shape.push_back(1);  // a scalar has no padding
  const T identity = IdentityOf<T>(spec.attrs.Get<ReduceOp>("op"));
  std::vector<bool> masked(shape.size(), false);
  size_t last = 0;  // masked dim
  for (int64_t d : spec.attrs.Get<Ints>("dims")) {
    masked[d] = true;
    last = std::max(last, static_cast<size_t>(d));
  }
  const int64_t row = shape.back();
  const int64_t piece = NumElements(Shape(shape.begin() + static_cast<ptrdiff_t>(last), shape.end()));
  const auto valid_of = [=](const Block& block, int64_t index) {
    for (size_t d = last; d-- > 0; index /= shape[d])
      if (masked[d] && index % shape[d] >= block[d].size) return int64_t{0};
    return masked[last] ? piece / shape[last] * block[last].size : piece;
  };
  return {.run =
              [=](const KernelArgs& args) {
                const T* from = args.In<T>(0);
                T* to = args.Out<T>(0);
                for (int64_t at = args.begin * row, all = args.end * row; at < all;) {
                  const int64_t first = at / piece * piece, end = std::min(all, first + piece);
                  const int64_t valid = std::clamp(first + valid_of(args.out_blocks[0], at / piece), at, end);
                  if (to != from) std::copy(from + at, from + valid, to + at);
                  std::fill(to + valid, to + end, identity);
                  at = end;
                }
              },
          .units = row == 0 ? 0 : NumElements(shape) / row,
          .by_rows = true,
          .parts = {row == 0 ? 0 : NumElements(shape) / row}};
}

Kernel MaskPaddingCpu(const KernelSpec& spec) {
  return DispatchAny(spec.results[0].local.dtype,
                     [&](auto zero) { return MaskPaddingKernel<decltype(zero)>(spec); });
}

// Copies the device's part out of the operand's block, along the dim that gets sharded.
Kernel ShardSliceCpu(const KernelSpec& spec) {
  const Shape& from = spec.operands[0].local.shape;
  const Shape& to = spec.results[0].local.shape;
  const auto dim = static_cast<size_t>(spec.attrs.Get<int64_t>("dim"));
  int64_t outer = 1, inner = DTypeSize(spec.results[0].local.dtype);
  for (size_t d = 0; d < dim; ++d) outer *= from[d];
  for (size_t d = dim + 1; d < from.size(); ++d) inner *= from[d];
  return {.run =
              [dim, inner, from_rows = from[dim], to_rows = to[dim]](const KernelArgs& args) {
                const Extent& have = args.in_blocks[0][dim];
                const Extent& want = args.out_blocks[0][dim];
                for (int64_t o = args.begin; o < args.end; ++o) {
                  const char* source = args.In<char>(0) + (o * from_rows + want.start - have.start) * inner;
                  std::copy_n(source, want.size * inner, args.Out<char>(0) + o * to_rows * inner);
                }
              },
          .units = outer,
          .by_rows = true,
          .parts = {outer}};
}

template <typename From, typename To>
Kernel RoundingCpu(const KernelSpec& spec) {
  return UnaryKernel<From, To>(spec, [](Compute<From> x) { return x; });
}

}  // namespace

std::span<const OpRow> CollectiveOps() {
  const AttrSpec axes{"axes", AttrKind::kAxes}, op{"op", AttrKind::kReduceOp}, dim{"dim", AttrKind::kInt};
  static const auto* rows = new std::vector<OpRow>{
      {.name = "all_reduce",
       .doc = "combines each operand over axes; every device gets the whole",
       .num_operands = -1,
       .num_results = -1,
       .kind = OpKind::kCollective,
       .collective = CollectiveKind::kAllReduce,
       .attrs = {axes, op},
       .infer = InferLocalOnly},
      {.name = "reduce_scatter",
       .doc = "combines each operand over axes; every device gets its block along dim",
       .num_operands = -1,
       .num_results = -1,
       .kind = OpKind::kCollective,
       .collective = CollectiveKind::kReduceScatter,
       .attrs = {axes, dim, op},
       .infer = InferLocalOnly},
      {.name = "all_gather",
       .doc = "puts the blocks of each operand along dim together over axes",
       .num_operands = -1,
       .num_results = -1,
       .kind = OpKind::kCollective,
       .collective = CollectiveKind::kAllGather,
       .attrs = {axes, dim},
       .infer = InferLocalOnly},
      {.name = "all_to_all",
       .doc = "moves axes from dim `from` to dim `to`",
       .kind = OpKind::kCollective,
       .collective = CollectiveKind::kAllToAll,
       .attrs = {axes, {"from", AttrKind::kInt}, {"to", AttrKind::kInt}},
       .infer = InferLocalOnly},
      {.name = "all_to_all_v",
       .doc = "each device receives the block its new layout names, in parts, from those that hold them",
       .kind = OpKind::kCollective,
       .collective = CollectiveKind::kAllToAllV,
       .infer = InferLocalOnly},
      {.name = "collective_permute",
       .doc = "each device receives the one block its new layout names",
       .kind = OpKind::kCollective,
       .collective = CollectiveKind::kPermute,
       .infer = InferLocalOnly},
      {.name = "exchange",
       .doc =
           "each device receives what its block is put together of: slices, joins, windows of its neighbours",
       .num_operands = -1,
       .kind = OpKind::kCollective,
       .collective = CollectiveKind::kExchange,
       .attrs = {{"offset", AttrKind::kInts},
                 {"stride", AttrKind::kInts, Ints{}},
                 {"spacing", AttrKind::kInts, Ints{}},
                 {"size", AttrKind::kInts, Ints{}},
                 {"extent", AttrKind::kInts, Ints{}},
                 {"value", AttrKind::kFloat, 0.0}},
       .infer = InferLocalOnly},
      {.name = "shard_slice",
       .doc = "each device keeps its part along dim; no communication",
       .kind = OpKind::kLocal,
       .attrs = {axes, dim},
       .infer = InferLocalOnly,
       .cpu = ShardSliceCpu,
       .reads_block = true},
      {.name = "mask_padding",
       .doc = "padding along dims becomes the identity of op",
       .kind = OpKind::kLocal,
       .attrs = {{"dims", AttrKind::kInts}, op},
       .infer = InferLocalOnly,
       .cpu = MaskPaddingCpu,
       .reads_block = true,
       .in_place = {0}},
      {.name = "widen",
       .doc = "bf16 as f32, in which sums of it are owed",
       .kind = OpKind::kLocal,
       .infer = InferLocalOnly,
       .cpu = RoundingCpu<BFloat16, float>,
       .stack = StackBroadcast,
       .is_light = true},
      {.name = "narrow",
       .doc = "what was summed in f32, rounded to bf16",
       .kind = OpKind::kLocal,
       .infer = InferLocalOnly,
       .cpu = RoundingCpu<float, BFloat16>,
       .stack = StackBroadcast,
       .is_light = true},
      // It has no kernel: the runtime writes it as a choice by the device's index (runtime/plan/loop.h).
      {.name = "keep_first",
       .doc = "the first device along axes keeps its block, the others have -0: a sum that is owed",
       .kind = OpKind::kLocal,
       .attrs = {axes},
       .infer = InferLocalOnly},
  };
  return *rows;
}

}  // namespace meshwork
