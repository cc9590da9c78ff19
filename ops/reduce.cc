// The reduction family: sum, mean, max, min, prod, all, any over dims, argmax and argmin along one.
#include "meshwork/ops/kernels/reduce.h"

#include <algorithm>
#include <array>

#include "fmt/ranges.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/builder.h"
#include "meshwork/ops/blockwise.h"
#include "meshwork/ops/families.h"
#include "meshwork/ops/kernels/stack.h"
#include "meshwork/ops/ops.h"

namespace meshwork {
namespace {

using Ints = std::vector<int64_t>;

bool Contains(const Ints& dims, int64_t d) { return std::find(dims.begin(), dims.end(), d) != dims.end(); }

// ---- Inference, rules, gradients.

absl::StatusOr<std::vector<Type>> InferOverDims(const OpView& view) {
  const Type& x = view.operands[0];
  const Ints& dims = view.attrs.Get<Ints>("dims");
  for (size_t i = 0; i < dims.size(); ++i) {
    MESHWORK_RETURN_IF_ERROR(CheckDim("dims", dims[i], x));
    if (Contains(Ints(dims.begin(), dims.begin() + static_cast<int64_t>(i)), dims[i]))
      return InvalidArgument("dims=[{}] names dim {} twice.", fmt::join(dims, ","), dims[i]);
  }
  Type result{x.dtype, {}};
  for (int d = 0; d < x.rank(); ++d) {
    if (!Contains(dims, d)) result.shape.push_back(x.shape[d]);
    else if (view.attrs.Get<bool>("keep_dims")) result.shape.push_back(1);
  }
  return std::vector<Type>{result};
}

absl::StatusOr<std::vector<Type>> InferReduce(const OpView& view) {
  const Type& x = view.operands[0];
  if (x.dtype != BOOL) return InferOverDims(view);
  return InvalidArgument("takes numbers, got {}; reduce_all and reduce_any take bools.", x.ToString());
}

absl::StatusOr<std::vector<Type>> InferLogical(const OpView& view) {
  const Type& x = view.operands[0];
  if (x.dtype == BOOL) return InferOverDims(view);
  return InvalidArgument("takes bools, got {}; compare with something, or cast to bool.", x.ToString());
}

absl::StatusOr<std::vector<Type>> InferMean(const OpView& view) {
  if (!IsFloat(view.operands[0].dtype))
    return InvalidArgument("takes f32, f64 or bf16, got {}; cast it.", view.operands[0].ToString());
  return InferReduce(view);
}

// If the operand owes the same reduction, it joins the reduction that the sharded dims leave owed. Products
// of reals are computed from all factors at once: the product of a block may be infinite while a factor
// elsewhere makes the whole 0.
template <ReduceOp op>
Rule ReduceRule(const OpView& view) {
  const Ints& dims = view.attrs.Get<Ints>("dims");
  const bool is_whole = op == ReduceOp::kProd && IsFloat(view.operands[0].dtype);
  std::string from, to;
  for (int d = 0; d < view.operands[0].rank(); ++d) {
    const auto letter = static_cast<char>('a' + d);
    from += letter;
    if (!Contains(dims, d)) {
      to += letter;
      continue;
    }
    if (is_whole) from += '!';
    if (view.attrs.Get<bool>("keep_dims")) to += '1';
  }
  return MakeRule(from + "->" + to, view.operands, view.results, {{Which::kAll, op, op}}, op);
}

// Spreads a reduced value back over the operand's shape.
Value Spread(const Value& reduced, const GradView& view) {
  const Ints& dims = view.attrs.Get<Ints>("dims");
  const bool keep = view.attrs.Get<bool>("keep_dims");
  Ints kept;
  for (int64_t d = 0; d < view.operands[0].rank(); ++d)
    if (keep || !Contains(dims, d)) kept.push_back(d);
  return BroadcastTo(reduced, view.operands[0].shape(), kept);
}

std::vector<Value> SumGrad(const GradView& view) { return {Spread(view.result_grads[0], view)}; }

std::vector<Value> MeanGrad(const GradView& view) {
  Value count = DimensionSize(view.operands[0], view.attrs.Get<Ints>("dims"), view.operands[0].dtype());
  return {Spread(Div(view.result_grads[0], count), view)};
}

// Elements equal to the maximum (minimum) share the gradient equally.
std::vector<Value> ExtremumGrad(const GradView& view) {
  if (!IsFloat(view.operands[0].dtype())) return {Value()};
  const DType dtype = view.operands[0].dtype();
  Value is_it = Equal(view.operands[0], Spread(view.results[0], view));
  Value count =
      ReduceSum(Cast(is_it, dtype), view.attrs.Get<Ints>("dims"), view.attrs.Get<bool>("keep_dims"));
  return {Select(is_it, Spread(Div(view.result_grads[0], count), view), 0.0)};
}

// The gradient of a factor is the product of the others: the product of the nonzero factors, divided by this
// factor if it is not 0; 0 if another factor is 0. This is local except for two reductions. The quotient
// needs a finite product that does not underflow; a gradient of this gradient takes zeros among the factors
// for constants.
std::vector<Value> ProdGrad(const GradView& view) {
  const Value& x = view.operands[0];
  if (!IsFloat(x.dtype())) return {Value()};
  const Ints& dims = view.attrs.Get<Ints>("dims");
  const bool keep = view.attrs.Get<bool>("keep_dims");
  Value is_zero = Equal(x, 0.0);
  Value own_zeros = Cast(is_zero, x.dtype());
  Value zeros = Spread(ReduceSum(own_zeros, dims, keep), view);
  Value factor = Select(is_zero, 1.0, x);
  Value product = Mul(view.result_grads[0], ReduceProd(factor, dims, keep));
  return {Select(Equal(zeros, own_zeros), Div(Spread(product, view), factor), 0.0)};
}

absl::StatusOr<std::vector<Type>> InferArgmax(const OpView& view) {
  const Type& x = view.operands[0];
  const int64_t dim = view.attrs.Get<int64_t>("dim");
  if (x.dtype == BOOL) return InvalidArgument("takes numbers, got {}; cast it.", x.ToString());
  MESHWORK_RETURN_IF_ERROR(CheckDim("dim", dim, x));
  if (x.shape[dim] == 0)
    return InvalidArgument("dim {} of {} is empty; it has no largest and no smallest element.", dim,
                           x.ToString());
  if (x.shape[dim] > int64_t{1} << 31)
    return InvalidArgument("dim {} of {} has more than 2^31 elements, which an i32 index cannot count.", dim,
                           x.ToString());
  Type result{I32, x.shape};
  result.shape.erase(result.shape.begin() + dim);
  return std::vector<Type>{result};
}

Rule ArgmaxRule(const OpView& view) {
  std::string from, to;
  for (int d = 0; d < view.operands[0].rank(); ++d) {
    from += static_cast<char>('a' + d);
    if (d != view.attrs.Get<int64_t>("dim")) to += from.back();
    else from += '^';
  }
  return MakeRule(from + "->" + to, view.operands, view.results);
}

// ---- Kernels.

ReduceWalk WalkOf(const KernelSpec& spec) {
  const Shape& shape = spec.operands[0].local.shape;
  std::vector<bool> reduces(shape.size(), false);
  for (int64_t d : spec.attrs.Get<Ints>("dims")) reduces[d] = true;
  return MakeReduceWalk(shape, reduces);
}

template <template <typename> typename F>
Kernel ReduceCpu(const KernelSpec& spec) {
  return Dispatch(spec.results[0].local.dtype, [&](auto zero) -> Kernel {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, bool>) return {};
    else return ReduceKernel(WalkOf(spec), ReduceLoopsOf<T, F<Compute<T>>>(), 1);
  });
}

template <template <typename> typename F>
Kernel LogicalCpu(const KernelSpec& spec) {
  using T = Stored<bool>;
  return ReduceKernel(WalkOf(spec), ReduceLoopsOf<T, F<T>>(), 1);
}

// A mean divides by the number of elements of the *global* dims, so that partial means add up to it.
Kernel MeanCpu(const KernelSpec& spec) {
  int64_t count = 1;
  for (int64_t d : spec.attrs.Get<Ints>("dims")) count *= spec.operands[0].global.shape[d];
  return Dispatch(spec.results[0].local.dtype, [&](auto zero) -> Kernel {
    using T = decltype(zero);
    if constexpr (kIsReal<T>) return ReduceKernel(WalkOf(spec), ReduceLoopsOf<T, SumOf<Compute<T>>>(), count);
    else return {};
  });
}

struct IsGreater {
  template <typename T>
  bool operator()(T a, T b) const {
    return a > b;
  }
};
struct IsLess {
  template <typename T>
  bool operator()(T a, T b) const {
    return a < b;
  }
};

// The element that comes before all others, and its index. The first NaN comes before all numbers.
template <typename A, typename Before>
struct Foremost {
  A top;
  int32_t at;

  // Compares with the element x, which has a higher index.
  void Meet(A x, int32_t index) {
    const bool better = Before{}(x, top) || (x != x && top == top);
    top = better ? x : top;
    at = better ? index : at;
  }
  // Compares with the foremost of other elements.
  void Meet(const Foremost& other) {
    const bool ties = other.top == top || (other.top != other.top && top != top);
    if (ties) at = std::min(at, other.at);
    else Meet(other.top, other.at);
  }
};

// The foremost of each of `columns` columns of n elements, `stride` apart, and the row that it is in.
template <typename Before, typename T>
void MeetRows(const T* a, int64_t n, int64_t stride, int64_t columns, Compute<T>* top, int32_t* at) {
  for (int64_t c = 0; c < columns; ++c) top[c] = a[c], at[c] = 0;
  for (int64_t k = 1; k < n; ++k) {
    const T* row = a + k * stride;
    MESHWORK_INDEPENDENT
    for (int64_t c = 0; c < columns; ++c) {
      Foremost<Compute<T>, Before> best{top[c], at[c]};
      best.Meet(row[c], static_cast<int32_t>(k));
      top[c] = best.top, at[c] = best.at;
    }
  }
}

// The lowest index of the foremost of n contiguous elements. REQUIRES: n >= 1.
template <typename Before, typename T>
int32_t ArgOfRun(const T* a, int64_t n) {
  constexpr int64_t kLanes = 64;
  Foremost<Compute<T>, Before> best{a[0], 0};
  const int64_t rows = n / kLanes;
  int64_t k = 1;
  if (rows >= 4) {
    std::array<Compute<T>, kLanes> top;
    std::array<int32_t, kLanes> at;
    MeetRows<Before>(a, rows, kLanes, kLanes, top.data(), at.data());
    for (int64_t l = 0; l < kLanes; ++l) best.Meet({top[l], static_cast<int32_t>(at[l] * kLanes + l)});
    k = rows * kLanes;
  }
  for (; k < n; ++k) best.Meet(a[k], static_cast<int32_t>(k));
  return best.at;
}

// The same of each of `columns` columns, `stride` apart.
template <typename Before, typename T>
void ArgOfColumns(const T* a, int64_t n, int64_t stride, int64_t columns, int32_t* out) {
  constexpr int64_t kTile = 256;
  std::array<Compute<T>, kTile> top;
  for (int64_t first = 0; first < columns; first += kTile)
    MeetRows<Before>(a + first, n, stride, std::min(kTile, columns - first), top.data(), out + first);
}

template <typename T, typename Before>
Kernel ArgKernel(const KernelSpec& spec) {
  const Shape& from = spec.operands[0].local.shape;
  const int64_t dim = spec.attrs.Get<int64_t>("dim");
  int64_t outer = 1, inner = 1;
  for (int64_t d = 0; d < static_cast<int64_t>(from.size()); ++d)
    (d < dim ? outer : inner) *= d == dim ? 1 : from[d];
  return {.run = OnThisCpu<kMostLevel<T>>([n = from[dim], inner](const KernelArgs& args) {
            for (int64_t i = args.begin; i < args.end;) {
              const int64_t columns = std::min(inner - i % inner, args.end - i);
              const T* a = args.In<T>(0) + i / inner * n * inner + i % inner;
              int32_t* out = args.Out<int32_t>(0) + i;
              if (inner == 1) *out = ArgOfRun<Before>(a, n);
              else ArgOfColumns<Before>(a, n, inner, columns, out);
              i += columns;
            }
          }),
          .units = outer * inner,
          .by_rows = true,
          .parts = {outer}};
}

template <typename Before>
Kernel ArgCpu(const KernelSpec& spec) {
  return Dispatch(spec.operands[0].local.dtype, [&](auto zero) -> Kernel {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, bool>) return {};
    else return ArgKernel<T, Before>(spec);
  });
}

// ---- The instances of coalesced devices, which the op may also reduce over.

template <ReduceOp op>
std::optional<KernelSpec> StackReduce(const KernelSpec& spec, const StackDims& dims) {
  Ints reduced;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d].reduced.has_value() && dims[d].reduced != op) return std::nullopt;
    if (dims[d].reduced.has_value()) reduced.push_back(static_cast<int64_t>(d));
  }
  KernelSpec stacked = Stacked(spec, dims);
  const Ints own = BehindLeading(spec.attrs.Get<Ints>("dims"), dims.size(), /*with_leading=*/false);
  reduced.insert(reduced.end(), own.begin(), own.end());
  stacked.attrs.Set("dims", std::move(reduced));
  return stacked;
}

std::optional<KernelSpec> StackArg(const KernelSpec& spec, const StackDims& dims) {
  if (IsReduced(dims)) return std::nullopt;
  KernelSpec stacked = Stacked(spec, dims);
  stacked.attrs.Set("dim", spec.attrs.Get<int64_t>("dim") + static_cast<int64_t>(dims.size()));
  return stacked;
}

// ---- Rows.

OpRow ReductionRow(std::string_view name, std::string_view doc,
                   absl::StatusOr<std::vector<Type>> (*infer)(const OpView&), Rule (*rule)(const OpView&),
                   std::vector<Value> (*grad)(const GradView&), KernelFactory cpu,
                   std::optional<KernelSpec> (*stack)(const KernelSpec&, const StackDims&),
                   std::vector<std::string_view> samples, double sample_low = -1, double sample_high = 1) {
  return {.name = name,
          .doc = doc,
          .attrs = {{"dims", AttrKind::kInts}, {"keep_dims", AttrKind::kBool, false}},
          .infer = infer,
          .rule = rule,
          .grad = grad,
          .cpu = cpu,
          .stack = stack,
          .is_light = true,
          .samples = std::move(samples),
          .sample_low = sample_low,
          .sample_high = sample_high};
}

// Takes the first extremum of each block and its index, and the first of these.
template <bool is_max>
std::vector<Value> ArgBlockwise(const BlockwiseView& view) {
  const Value& x = view.operands[0];
  const int64_t dim = view.attrs.Get<int64_t>("dim");
  const Blocks blocks(view, x, dim);
  // An element and its index are sent per block.
  if (blocks.size() <= 2 || !blocks.CanFill(x.dtype(), !is_max)) return {};
  const Value split = blocks.Split(x, is_max ? LowestOf(x.dtype()) : HighestOf(x.dtype()));
  const Value place = is_max ? Argmax(split, dim + 1) : Argmin(split, dim + 1);
  const Value extremum = is_max ? ReduceMax(split, {dim + 1}) : ReduceMin(split, {dim + 1});
  const Value extrema = blocks.Gathered(extremum), places = blocks.Gathered(place + blocks.Starts(place));
  const Value best = ExpandDims(is_max ? Argmax(extrema, dim) : Argmin(extrema, dim), {dim});
  return {Squeeze(TakeAlongDim(places, best, dim), {dim})};
}

OpRow ArgReduction(std::string_view name, std::string_view doc,
                   std::vector<Value> (*blockwise)(const BlockwiseView&), KernelFactory cpu) {
  return {.name = name,
          .doc = doc,
          .attrs = {{"dim", AttrKind::kInt}},
          .infer = InferArgmax,
          .rule = ArgmaxRule,
          .blockwise = blockwise,
          .cpu = cpu,
          .stack = StackArg,
          .is_light = true,
          .samples = {"f32[4,6]; dim=1", "f64[4,6]; dim=0", "i32[5,3]; dim=1", "bf16[2,3,4]; dim=1"}};
}

}  // namespace

std::span<const OpRow> ReduceOps() {
  const std::vector<std::string_view> reals = {"f32[4,6]; dims=[0]",   "f32[4,6]; dims=[1]",
                                               "f64[4,6]; dims=[0,1]", "f32[2,3,4]; dims=[1] keep_dims=true",
                                               "bf16[2,3]; dims=[0]",  "bf16[3,2,1]; dims=[1,2]"};
  std::vector<std::string_view> numbers = reals;
  numbers.emplace_back("i32[4,6]; dims=[1]");
  const std::vector<std::string_view> bools = {"bool[4,6]; dims=[0]", "bool[4,6]; dims=[1]",
                                               "bool[2,3,4]; dims=[0,2] keep_dims=true"};
  static const auto* rows = new std::vector<OpRow>{
      ReductionRow("reduce_sum", "sum over dims; of bf16 in float, rounded once", InferReduce,
                   ReduceRule<ReduceOp::kSum>, SumGrad, ReduceCpu<SumOf>, StackReduce<ReduceOp::kSum>,
                   numbers),
      ReductionRow("reduce_mean", "mean over dims; NaN over none", InferMean, ReduceRule<ReduceOp::kSum>,
                   MeanGrad, MeanCpu, StackReduce<ReduceOp::kSum>, reals),
      ReductionRow("reduce_max", "maximum over dims; NaN if one is, 0 above -0", InferReduce,
                   ReduceRule<ReduceOp::kMax>, ExtremumGrad, ReduceCpu<MaxOf>, StackReduce<ReduceOp::kMax>,
                   numbers),
      ReductionRow("reduce_min", "minimum over dims; NaN if one is, -0 below 0", InferReduce,
                   ReduceRule<ReduceOp::kMin>, ExtremumGrad, ReduceCpu<MinOf>, StackReduce<ReduceOp::kMin>,
                   numbers),
      ReductionRow("reduce_prod", "product over dims; of bf16 in float, rounded once", InferReduce,
                   ReduceRule<ReduceOp::kProd>, ProdGrad, ReduceCpu<ProdOf>, StackReduce<ReduceOp::kProd>,
                   numbers, 0.75, 1.5),
      ReductionRow("reduce_all", "true where all are, over dims", InferLogical, ReduceRule<ReduceOp::kAnd>,
                   nullptr, LogicalCpu<AndOf>, StackReduce<ReduceOp::kAnd>, bools),
      ReductionRow("reduce_any", "true where one is, over dims", InferLogical, ReduceRule<ReduceOp::kOr>,
                   nullptr, LogicalCpu<OrOf>, StackReduce<ReduceOp::kOr>, bools),
      ArgReduction("argmax",
                   "index of the largest element along dim; ties go to the lowest, the first NaN wins",
                   ArgBlockwise<true>, ArgCpu<IsGreater>),
      ArgReduction("argmin",
                   "index of the smallest element along dim; ties go to the lowest, the first NaN wins",
                   ArgBlockwise<false>, ArgCpu<IsLess>),
  };
  return *rows;
}

namespace {

Value Reduce(std::string_view op, const Operand& x, const DimList& dims, bool keep_dims) {
  return AddOpOver(op, {x}, dims, {{"keep_dims", keep_dims}});
}

}  // namespace

Value ReduceSum(const Operand& x, const DimList& dims, bool keep_dims) {
  return Reduce("reduce_sum", x, dims, keep_dims);
}
Value ReduceMean(const Operand& x, const DimList& dims, bool keep_dims) {
  return Reduce("reduce_mean", x, dims, keep_dims);
}
Value ReduceMax(const Operand& x, const DimList& dims, bool keep_dims) {
  return Reduce("reduce_max", x, dims, keep_dims);
}
Value ReduceMin(const Operand& x, const DimList& dims, bool keep_dims) {
  return Reduce("reduce_min", x, dims, keep_dims);
}
Value ReduceProd(const Operand& x, const DimList& dims, bool keep_dims) {
  return Reduce("reduce_prod", x, dims, keep_dims);
}
Value ReduceAll(const Operand& x, const DimList& dims, bool keep_dims) {
  return Reduce("reduce_all", x, dims, keep_dims);
}
Value ReduceAny(const Operand& x, const DimList& dims, bool keep_dims) {
  return Reduce("reduce_any", x, dims, keep_dims);
}
Value Argmax(const Operand& x, int64_t dim) { return AddOpAlong("argmax", {x}, dim); }
Value Argmin(const Operand& x, int64_t dim) { return AddOpAlong("argmin", {x}, dim); }

}  // namespace meshwork
