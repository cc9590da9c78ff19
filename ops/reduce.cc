// The reduction family: sum, mean, max over dims, argmax along one.
#include <algorithm>
#include <limits>

#include "base/status.h"
#include "fmt/ranges.h"
#include "ops/builder.h"
#include "ops/kernels/elementwise.h"
#include "ops/registry.h"

namespace meshwork {
namespace {

using Ints = std::vector<int64_t>;

bool Contains(const Ints& dims, int64_t d) { return std::find(dims.begin(), dims.end(), d) != dims.end(); }

// ---- Inference, rules, gradients.

absl::StatusOr<std::vector<Type>> InferReduce(const OpView& view) {
  const Type& x = view.operands[0];
  const Ints& dims = view.attrs.Get<Ints>("dims");
  if (x.dtype == BOOL) return InvalidArgument("takes numbers, got {}.", x.ToString());
  for (size_t i = 0; i < dims.size(); ++i) {
    RETURN_IF_ERROR(CheckDim("dims", dims[i], x));
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

absl::StatusOr<std::vector<Type>> InferMean(const OpView& view) {
  if (!IsFloat(view.operands[0].dtype))
    return InvalidArgument("takes f32, f64 or bf16, got {}.", view.operands[0].ToString());
  return InferReduce(view);
}

// What is owed by the same reduction joins what the sharded dims leave owed.
template <ReduceOp op>
Rule ReduceRule(const OpView& view) {
  const Ints& dims = view.attrs.Get<Ints>("dims");
  std::string from, to;
  for (int d = 0; d < view.operands[0].rank(); ++d) {
    from += static_cast<char>('a' + d);
    if (!Contains(dims, d)) to += from.back();
    else if (view.attrs.Get<bool>("keep_dims")) to += '1';
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

// Elements equal to the maximum share the gradient equally.
std::vector<Value> MaxGrad(const GradView& view) {
  if (!IsFloat(view.operands[0].dtype())) return {Value()};
  const DType dtype = view.operands[0].dtype();
  Value is_max = Equal(view.operands[0], Spread(view.results[0], view));
  Value count =
      ReduceSum(Cast(is_max, dtype), view.attrs.Get<Ints>("dims"), view.attrs.Get<bool>("keep_dims"));
  return {Select(is_max, Spread(Div(view.result_grads[0], count), view), 0.0)};
}

absl::StatusOr<std::vector<Type>> InferArgmax(const OpView& view) {
  const Type& x = view.operands[0];
  const int64_t dim = view.attrs.Get<int64_t>("dim");
  if (x.dtype == BOOL) return InvalidArgument("takes numbers, got {}.", x.ToString());
  RETURN_IF_ERROR(CheckDim("dim", dim, x));
  if (x.shape[dim] == 0)
    return InvalidArgument("dim {} of {} is empty; it has no largest element.", dim, x.ToString());
  Type result{I32, x.shape};
  result.shape.erase(result.shape.begin() + dim);
  return std::vector<Type>{result};
}

Rule ArgmaxRule(const OpView& view) {
  std::string from, to;
  for (int d = 0; d < view.operands[0].rank(); ++d) {
    from += static_cast<char>('a' + d);
    if (d != view.attrs.Get<int64_t>("dim")) to += from.back();
    else from += '!';
  }
  return MakeRule(from + "->" + to, view.operands, view.results);
}

// ---- Kernels.

template <typename T>
struct SumOf {
  static T Identity() { return 0; }
  static T Apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
    } else {
      return a + b;
    }
  }
};
template <typename T>
struct MaxOf {
  static T Identity() {
    if constexpr (std::is_floating_point_v<T>) return -std::numeric_limits<T>::infinity();
    else return std::numeric_limits<T>::min();
  }
  static T Apply(T a, T b) { return a > b || a != a ? a : b; }
};

// Folds n contiguous elements in eight lanes, then the lanes: fixed order, vectorises.
template <typename T, typename F>
T FoldRun(const T* a, int64_t n) {
  constexpr int kLanes = 8;
  T lanes[kLanes];
  std::fill_n(lanes, kLanes, F::Identity());
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int l = 0; l < kLanes; ++l) lanes[l] = F::Apply(lanes[l], a[i + l]);
  for (; i < n; ++i) lanes[i % kLanes] = F::Apply(lanes[i % kLanes], a[i]);
  T result = lanes[0];
  for (int l = 1; l < kLanes; ++l) result = F::Apply(result, lanes[l]);
  return result;
}

// Walks the operand in order, folding each run into where it belongs. The walk's "operand" is the
// result: stride 0 along reduced dims. The leading dim, if kept, is what workers share.
template <typename T, typename F>
Kernel ReduceKernel(const KernelSpec& spec, bool is_mean) {
  const Shape& from = spec.operands[0].local.shape;
  const Ints& dims = spec.attrs.Get<Ints>("dims");
  Shape strides(from.size(), 0);
  int64_t dense = 1, count = 1;
  for (size_t d = from.size(); d-- > 0;) {
    if (Contains(dims, static_cast<int64_t>(d))) {
      count *= spec.operands[0].global.shape[d];
    } else {
      strides[d] = dense;
      dense *= from[d];
    }
  }
  const bool split = !from.empty() && !Contains(dims, 0) && from[0] > 0;
  const int64_t units = split ? from[0] : 1;
  const int64_t from_unit = NumElements(from) / units, to_unit = dense / units;
  const T scale = is_mean ? T(1) / static_cast<T>(count) : T(1);
  return {.run =
              [=, walk = MergeDims<1>(from, {strides})](const KernelArgs& args) {
                const T* a = args.In<T>(0);
                T* out = args.Out<T>(0);
                const int64_t first = args.begin * to_unit, last = args.end * to_unit;
                std::fill(out + first, out + last, F::Identity());
                const int64_t stride = walk.dims.back().strides[0];
                ForEachRun(walk, args.begin * from_unit, args.end * from_unit,
                           [&](int64_t at, const std::array<int64_t, 1>& to, int64_t n) {
                             T* target = out + to[0];
                             if (stride == 0) {
                               *target = F::Apply(*target, FoldRun<T, F>(a + at, n));
                             } else {
                               MESHWORK_INDEPENDENT
                               for (int64_t i = 0; i < n; ++i) target[i] = F::Apply(target[i], a[at + i]);
                             }
                           });
                if (scale != T(1))
                  for (int64_t i = first; i < last; ++i) out[i] *= scale;
              },
          .units = units};
}

// A mean divides by the number of elements of the *global* dims, so that partial means add up to it.
template <template <typename> typename F, bool is_mean = false>
Kernel ReduceCpu(const KernelSpec& spec) {
  return Dispatch(spec.results[0].local.dtype, [&](auto zero) -> Kernel {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, BFloat16>) return {};
    else return ReduceKernel<T, F<T>>(spec, is_mean);
  });
}

template <typename T>
Kernel ArgmaxKernel(const KernelSpec& spec) {
  const Shape& from = spec.operands[0].local.shape;
  const int64_t dim = spec.attrs.Get<int64_t>("dim");
  int64_t outer = 1, inner = 1;
  for (int64_t d = 0; d < static_cast<int64_t>(from.size()); ++d)
    (d < dim ? outer : inner) *= d == dim ? 1 : from[d];
  return {.run =
              [n = from[dim], inner](const KernelArgs& args) {
                for (int64_t i = args.begin; i < args.end; ++i) {
                  const T* a = args.In<T>(0) + i / inner * n * inner + i % inner;
                  int64_t best = 0;
                  for (int64_t k = 1; k < n; ++k) {
                    const T x = a[k * inner], y = a[best * inner];
                    if (x > y || (x != x && y == y)) best = k;  // the first NaN wins
                  }
                  args.Out<int32_t>(0)[i] = static_cast<int32_t>(best);
                }
              },
          .units = outer * inner};
}

Kernel ArgmaxCpu(const KernelSpec& spec) {
  return Dispatch(spec.operands[0].local.dtype,
                  [&](auto zero) { return ArgmaxKernel<decltype(zero)>(spec); });
}

const std::vector<OpRow>& Rows() {
  static const std::vector<AttrSpec> attrs = {{"dims", AttrKind::kInts},
                                              {"keep_dims", AttrKind::kBool, false}};
  static const std::vector<std::string_view> samples = {"f32[4,6]; dims=[0]", "f32[4,6]; dims=[1]",
                                                        "f64[4,6]; dims=[0,1]",
                                                        "f32[2,3,4]; dims=[1] keep_dims=true"};
  static const auto* rows = new std::vector<OpRow>{
      {.name = "reduce_sum",
       .doc = "sum over dims",
       .attrs = attrs,
       .infer = InferReduce,
       .rule = ReduceRule<ReduceOp::kSum>,
       .grad = SumGrad,
       .cpu = ReduceCpu<SumOf>,
       .samples = samples},
      {.name = "reduce_mean",
       .doc = "mean over dims",
       .attrs = attrs,
       .infer = InferMean,
       .rule = ReduceRule<ReduceOp::kSum>,
       .grad = MeanGrad,
       .cpu = ReduceCpu<SumOf, true>,
       .samples = samples},
      {.name = "reduce_max",
       .doc = "maximum over dims; NaN if one is",
       .attrs = attrs,
       .infer = InferReduce,
       .rule = ReduceRule<ReduceOp::kMax>,
       .grad = MaxGrad,
       .cpu = ReduceCpu<MaxOf>,
       .samples = samples},
      {.name = "argmax",
       .doc = "index of the largest element along dim; ties go to the lowest",
       .attrs = {{"dim", AttrKind::kInt}},
       .infer = InferArgmax,
       .rule = ArgmaxRule,
       .cpu = ArgmaxCpu,
       .samples = {"f32[4,6]; dim=1", "f64[4,6]; dim=0", "i32[5,3]; dim=1"}},
  };
  return *rows;
}

}  // namespace

std::span<const OpRow> ReduceOps() { return Rows(); }

Value ReduceSum(const Operand& x, const Ints& dims, bool keep_dims) {
  return AddOp("reduce_sum", {x}, {{"dims", dims}, {"keep_dims", keep_dims}});
}
Value ReduceMean(const Operand& x, const Ints& dims, bool keep_dims) {
  return AddOp("reduce_mean", {x}, {{"dims", dims}, {"keep_dims", keep_dims}});
}
Value ReduceMax(const Operand& x, const Ints& dims, bool keep_dims) {
  return AddOp("reduce_max", {x}, {{"dims", dims}, {"keep_dims", keep_dims}});
}
Value Argmax(const Operand& x, int64_t dim) { return AddOp("argmax", {x}, {{"dim", dim}}); }

}  // namespace meshwork
