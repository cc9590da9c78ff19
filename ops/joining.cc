// Ops that move elements along a dim: concat, reverse, roll. If that dim is sharded, devices exchange
// elements.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "fmt/ranges.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/builder.h"
#include "meshwork/ir/exchange.h"
#include "meshwork/ops/families.h"
#include "meshwork/ops/kernels/copy.h"
#include "meshwork/ops/kernels/stack.h"
#include "meshwork/ops/ops.h"

namespace meshwork {
namespace {

using Ints = std::vector<int64_t>;

// ---- concat

// Advice for operands of one dtype that cannot be joined along `dim`.
std::string HowToJoin(const Type& a, const Type& b, int64_t dim) {
  if (a.rank() != b.rank()) return "Reshape, ExpandDims or Squeeze one of them";
  std::vector<int> differ;
  for (int d = 0; d < a.rank(); ++d)
    if (a.shape[d] != b.shape[d]) differ.push_back(d);
  if (differ.size() == 1) return fmt::format("they fit along dim {}", differ[0]);
  return fmt::format("make dim {} of one the size of the other by Slice, Pad or BroadcastTo",
                     differ[0] == dim ? differ[1] : differ[0]);
}

absl::StatusOr<std::vector<Type>> InferConcat(const OpView& view) {
  const int64_t dim = view.attrs.Get<int64_t>("dim");
  Type result = view.operands[0];
  MESHWORK_RETURN_IF_ERROR(CheckDim("dim", dim, result));
  result.shape[dim] = 0;
  for (size_t i = 0; i < view.operands.size(); ++i) {
    Type other = view.operands[i];
    if (other.dtype != result.dtype)
      return InvalidArgument("dtypes differ: operand 0 is {}, operand {} {}; cast one of them.",
                             view.operands[0].ToString(), i, other.ToString());
    const int64_t size = other.rank() == result.rank() ? other.shape[dim] : 0;
    if (other.rank() == result.rank()) other.shape[dim] = result.shape[dim];
    if (other != result)
      return InvalidArgument("operand 0 is {}, operand {} {}; all dims but dim {} must be equal: {}.",
                             view.operands[0].ToString(), i, view.operands[i].ToString(), dim,
                             HowToJoin(view.operands[0], view.operands[i], dim));
    result.shape[dim] += size;
  }
  return std::vector<Type>{result};
}

// Each operand begins where those before it end.
Exchange ConcatExchange(const OpView& view) {
  const auto dim = static_cast<size_t>(view.attrs.Get<int64_t>("dim"));
  Exchange exchange;
  for (size_t d = 0; d < view.results[0].shape.size(); ++d) {
    ExchangeDim& one = exchange.dims.emplace_back();
    int64_t start = 0;
    for (const Type& type : view.operands) {
      one.offsets.push_back(d == dim ? -start : 0);
      start += type.shape[d];
    }
  }
  return exchange;
}

Rule ConcatRule(const OpView& view) {
  Passes passes = MovesElements();
  for (ReduceOp op : {ReduceOp::kMax, ReduceOp::kMin, ReduceOp::kAnd, ReduceOp::kOr})
    passes.push_back({Which::kAny, op, op});
  return MoveRule(view, ConcatExchange(view), std::move(passes));
}

std::vector<Value> ConcatGrad(const GradView& view) {
  const int64_t dim = view.attrs.Get<int64_t>("dim");
  std::vector<Value> grads;
  int64_t start = 0;
  for (const Value& x : view.operands) {
    grads.push_back(SliceDim(view.result_grads[0], dim, start, start + x.shape()[dim]));
    start += x.shape()[dim];
  }
  return grads;
}

Kernel ConcatCpu(const KernelSpec& spec) {
  const auto dim = static_cast<size_t>(spec.attrs.Get<int64_t>("dim"));
  const Type& result = spec.results[0].local;
  // In bytes: where each operand begins in a run of the result, and after them the run's length.
  Ints starts = {0};
  for (const TensorSpec& operand : spec.operands) {
    const Shape& shape = operand.local.shape;
    const int64_t run = std::accumulate(shape.begin() + static_cast<int64_t>(dim), shape.end(),
                                        DTypeSize(result.dtype), std::multiplies<>());
    starts.push_back(starts.back() + run);
  }
  return {.run =
              [starts, size = DTypeSize(result.dtype)](const KernelArgs& args) {
                const int64_t run = starts.back(), end = args.end * size;
                for (int64_t at = args.begin * size; at < end;) {
                  const int64_t row = at / run, begin = at % run;
                  const auto next = std::upper_bound(starts.begin(), starts.end(), begin);
                  const auto part = static_cast<int>(next - starts.begin() - 1);
                  const int64_t n = std::min(*next - begin, end - at), width = *next - starts[part];
                  std::memcpy(args.Out<char>(0) + at,
                              args.In<char>(part) + row * width + begin - starts[part],
                              static_cast<size_t>(n));
                  at += n;
                }
              },
          .units = result.num_elements(),
          .by_rows = true,
          .parts = std::vector<int64_t>(
              spec.operands.size(),
              std::max<int64_t>(
                  1, std::accumulate(result.shape.begin(), result.shape.begin() + static_cast<int64_t>(dim),
                                     int64_t{1}, std::multiplies<>())))};
}

std::optional<KernelSpec> StackConcat(const KernelSpec& spec, const StackDims& dims) {
  for (const StackDim& dim : dims)
    if (dim.reduced.has_value() ||
        !std::all_of(dim.varies.begin(), dim.varies.end(), [](bool v) { return v; }))
      return std::nullopt;
  KernelSpec stacked = Stacked(spec, dims);
  stacked.attrs.Set("dim", spec.attrs.Get<int64_t>("dim") + std::ssize(dims));
  return stacked;
}

// ---- reverse

absl::StatusOr<std::vector<Type>> InferReverse(const OpView& view) {
  const Ints& dims = view.attrs.Get<Ints>("dims");
  for (auto d = dims.begin(); d != dims.end(); ++d) {
    MESHWORK_RETURN_IF_ERROR(CheckDim("dims", *d, view.operands[0]));
    if (std::find(dims.begin(), d, *d) != d)
      return InvalidArgument("dims=[{}] names dim {} twice.", fmt::join(dims, ","), *d);
  }
  return std::vector<Type>{view.operands[0]};
}

Exchange ReverseExchange(const OpView& view) {
  Exchange exchange;
  for (size_t d = 0; d < view.operands[0].shape.size(); ++d) exchange.dims.push_back({.offsets = {0}});
  for (int64_t d : view.attrs.Get<Ints>("dims")) {
    const int64_t size = view.operands[0].shape[d];
    exchange.dims[d] = {.stride = -1, .offsets = {size - 1}};
  }
  return exchange;
}

Rule ReverseRule(const OpView& view) { return MoveRule(view, ReverseExchange(view), MovesElements()); }

std::vector<Value> ReverseGrad(const GradView& view) {
  return {Reverse(view.result_grads[0], view.attrs.Get<Ints>("dims"))};
}

Kernel ReverseCpu(const KernelSpec& spec) {
  const Shape& shape = spec.operands[0].local.shape;
  Shape strides = DenseStrides(shape);
  int64_t offset = 0;
  for (int64_t d : spec.attrs.Get<Ints>("dims")) {
    offset += (shape[d] - 1) * strides[d];
    strides[d] = -strides[d];
  }
  return StridedCopy(spec, strides, offset);
}

// ---- roll

absl::StatusOr<std::vector<Type>> InferRoll(const OpView& view) {
  constexpr int64_t kMost = int64_t{1} << 40;
  MESHWORK_RETURN_IF_ERROR(CheckDim("dim", view.attrs.Get<int64_t>("dim"), view.operands[0]));
  const int64_t shift = view.attrs.Get<int64_t>("shift");
  if (shift < -kMost || shift > kMost)
    return InvalidArgument("shift={} is beyond 2^40, the most elements there can be.", shift);
  return std::vector<Type>{view.operands[0]};
}

// The number of places that elements move up, in [0, size).
int64_t ShiftOf(const Attrs& attrs, const Shape& shape) {
  const int64_t size = shape[attrs.Get<int64_t>("dim")];
  if (size == 0) return 0;
  const int64_t shift = attrs.Get<int64_t>("shift") % size;
  return shift < 0 ? shift + size : shift;
}

// The exchange takes the operand twice: the elements that move up, and those that come round from the end.
Exchange RollExchange(const OpView& view) {
  const Shape& shape = view.operands[0].shape;
  Exchange exchange;
  for (size_t d = 0; d < shape.size(); ++d) exchange.dims.push_back({.offsets = {0, 0}});
  const int64_t shift = ShiftOf(view.attrs, shape), dim = view.attrs.Get<int64_t>("dim");
  exchange.dims[dim].offsets = {-shift, shape[dim] - shift};
  return exchange;
}

Rule RollRule(const OpView& view) { return MoveRule(view, RollExchange(view), MovesElements()); }

std::vector<Value> RollGrad(const GradView& view) {
  return {Roll(view.result_grads[0], -view.attrs.Get<int64_t>("shift"), view.attrs.Get<int64_t>("dim"))};
}

Kernel RollCpu(const KernelSpec& spec) {
  const Shape& shape = spec.operands[0].local.shape;
  const int64_t dim = spec.attrs.Get<int64_t>("dim");
  int64_t inner = DTypeSize(spec.operands[0].local.dtype);
  for (size_t d = static_cast<size_t>(dim) + 1; d < shape.size(); ++d) inner *= shape[d];
  const int64_t run = shape[dim] * inner, moved = ShiftOf(spec.attrs, shape) * inner;
  return {.run =
              [run, moved, size = DTypeSize(spec.operands[0].local.dtype)](const KernelArgs& args) {
                const int64_t end = args.end * size;
                for (int64_t at = args.begin * size; at < end;) {
                  const int64_t begin = at % run;
                  const int64_t n = std::min((begin < moved ? moved : run) - begin, end - at);
                  const int64_t from = begin < moved ? begin - moved + run : begin - moved;
                  std::memcpy(args.Out<char>(0) + at, args.In<char>(0) + at - begin + from,
                              static_cast<size_t>(n));
                  at += n;
                }
              },
          .units = spec.results[0].local.num_elements(),
          .by_rows = true};
}

// ---- Rows.

}  // namespace

std::span<const OpRow> JoiningOps() {
  static const auto* rows = new std::vector<OpRow>{
      {.name = "concat",
       .doc = "the operands one after the other along dim",
       .num_operands = -1,
       .attrs = {{"dim", AttrKind::kInt}},
       .takes_storage = true,
       .infer = InferConcat,
       .rule = ConcatRule,
       .exchange = ConcatExchange,
       .grad = ConcatGrad,
       .cpu = ConcatCpu,
       .stack = StackConcat,
       .samples = {"f32[4,6], f32[4,3]; dim=1", "f64[4,6], f64[2,6], f64[6,6]; dim=0", "f32[4,6]; dim=0",
                   "bf16[4,2,3], bf16[4,6,3]; dim=1", "f16[4,6], f16[4,3]; dim=1", "i32[5], i32[2]; dim=0",
                   "bool[4,6], bool[4,6]; dim=1", "i64[4,6], i64[4,3]; dim=1"}},
      {.name = "reverse",
       .doc = "x backwards along dims",
       .attrs = {{"dims", AttrKind::kInts}},
       .takes_storage = true,
       .infer = InferReverse,
       .rule = ReverseRule,
       .exchange = ReverseExchange,
       .grad = ReverseGrad,
       .cpu = ReverseCpu,
       .samples = {"f32[4,6]; dims=[1]", "f64[4,6]; dims=[0]", "bf16[4,6]; dims=[0,1]",
                   "i32[2,3,4]; dims=[1]", "i64[5]; dims=[0]", "bool[4,6]; dims=[]"}},
      {.name = "roll",
       .doc = "x with its elements moved up by shift along dim; what leaves at the end comes in at the start",
       .attrs = {{"shift", AttrKind::kInt}, {"dim", AttrKind::kInt}},
       .takes_storage = true,
       .infer = InferRoll,
       .rule = RollRule,
       .exchange = RollExchange,
       .grad = RollGrad,
       .cpu = RollCpu,
       .samples = {"f32[4,6]; shift=1 dim=1", "f64[4,6]; shift=-2 dim=0", "bf16[4,6]; shift=13 dim=1",
                   "i32[2,3,4]; shift=1 dim=1", "i64[5]; shift=0 dim=0", "f64[4,6]; shift=-12 dim=1",
                   "bool[4,6]; shift=3 dim=1"}},
  };
  return *rows;
}

Value Concat(const std::vector<Value>& xs, int64_t dim, CallSite loc) {
  if (xs.empty() || !xs[0].valid()) return {};
  // Of a program and the bodies in it, the innermost that has one of them.
  Graph* graph = xs[0].graph();
  for (const Value& x : xs)
    if (x.valid() && x.graph()->depth() > graph->depth()) graph = x.graph();
  return graph->Add("concat", xs, {{"dim", FromFront(dim, xs[0].rank())}}, loc)[0];
}

Value Reverse(const Operand& x, const DimList& dims) { return AddOpOver("reverse", {x}, dims); }

Value Stack(const std::vector<Value>& xs, int64_t dim, CallSite loc) {
  if (xs.empty()) return {};
  const int64_t at = FromFront(dim, xs[0].rank() + 1);
  std::vector<Value> expanded;
  for (const Value& x : xs) expanded.push_back(ExpandDims(Operand(x, loc), at));
  return Concat(expanded, at, loc);
}

Value Roll(const Operand& x, int64_t shift, int64_t dim) {
  return AddOpAlong("roll", {x}, dim, {{"shift", shift}});
}

}  // namespace meshwork
