// The cumulative family: sums, products, maxima and minima of all elements up to each along a dim, and the
// linear recurrence, of which the gradient of cumulative products is made.
//
// With reverse they run from the end; with exclusive, element i covers the elements before i, and the first
// element is the identity. Along a sharded dim they run block by block and carry the total of each block; the
// dim of a recurrence is whole on every device.
#include <algorithm>
#include <array>

#include "meshwork/base/status.h"
#include "meshwork/ir/builder.h"
#include "meshwork/ops/blockwise.h"
#include "meshwork/ops/families.h"
#include "meshwork/ops/kernels/columns.h"
#include "meshwork/ops/kernels/reduce.h"
#include "meshwork/ops/ops.h"

namespace meshwork {
namespace {

using Ints = std::vector<int64_t>;

// ---- Inference, rules.

absl::StatusOr<std::vector<Type>> InferCumulative(const OpView& view) {
  const Type& x = view.operands[0];
  if (x.dtype == BOOL) return InvalidArgument("takes numbers, got {}; cast it.", x.ToString());
  MESHWORK_RETURN_IF_ERROR(CheckDim("dim", view.attrs.Get<int64_t>("dim"), x));
  return std::vector<Type>{x};
}

absl::StatusOr<std::vector<Type>> InferRecurrence(const OpView& view) {
  const Type &a = view.operands[0], &b = view.operands[1];
  if (!IsFloat(a.dtype)) return InvalidArgument("takes f32, f64 or bf16, got {}; cast it.", a.ToString());
  if (a != b) return InvalidArgument("a is {}, b {}; they must be equal.", a.ToString(), b.ToString());
  MESHWORK_RETURN_IF_ERROR(CheckDim("dim", view.attrs.Get<int64_t>("dim"), a));
  return std::vector<Type>{a};
}

// "ab!": the dim is whole; "ab^": or carried.
std::string WholeAlong(const OpView& view, char mark) {
  std::string term;
  for (int64_t d = 0; d < view.operands[0].rank(); ++d) {
    term += static_cast<char>('a' + d);
    if (d == view.attrs.Get<int64_t>("dim")) term += mark;
  }
  return term;
}

// The fold commutes with the same reduction over devices: sums of sums, maxima of maxima.
template <ReduceOp op>
Rule CumulativeRule(const OpView& view) {
  const std::string term = WholeAlong(view, '^');
  return MakeRule(term + "->" + term, view.operands, view.results, {{Which::kAll, op, op}});
}

// h is linear in b, but not in a and b together.
Rule RecurrenceRule(const OpView& view) {
  const std::string term = WholeAlong(view, '!');
  return MakeRule(term + "," + term + "->" + term, view.operands, view.results, Linear(Which::kOneButFirst));
}

// ---- Gradients.

bool IsReverse(const GradView& view) { return view.attrs.Get<bool>("reverse"); }
bool IsExclusive(const GradView& view) { return view.attrs.Get<bool>("exclusive"); }
int64_t DimOf(const GradView& view) { return view.attrs.Get<int64_t>("dim"); }

// Element i of the result is x's element i + 1, or i - 1 if `from_before`, along the dim; 0 beyond the end.
Value Shifted(const Value& x, int64_t dim, bool from_before) {
  Ints low(static_cast<size_t>(x.rank()), 0), high = low;
  low[static_cast<size_t>(dim)] = from_before ? 1 : -1;
  high[static_cast<size_t>(dim)] = from_before ? -1 : 1;
  return x.shape()[static_cast<size_t>(dim)] == 0 ? x : Pad(x, low, high);
}

std::vector<Value> CumsumGrad(const GradView& view) {
  return {Cumsum(view.result_grads[0], DimOf(view), IsExclusive(view), !IsReverse(view))};
}

// y_i is the product of x_j up to i. By x_k it is the product of those before k, times that of those after k
// up to i: the second factor, times the gradient of y_i and summed over i, is a recurrence from the end,
// s_k = g_k + x_{k+1} s_{k+1}. No quotient, so it holds where factors are 0.
std::vector<Value> CumprodGrad(const GradView& view) {
  const Value &x = view.operands[0], &g = view.result_grads[0];
  if (!IsFloat(x.dtype())) return {Value()};
  const int64_t dim = DimOf(view);
  const bool reverse = IsReverse(view);
  const Value before = Cumprod(x, dim, /*exclusive=*/true, reverse);
  const Value own = IsExclusive(view) ? Shifted(g, dim, reverse) : g;
  return {Mul(before, LinearRecurrence(Shifted(x, dim, reverse), own, dim, !reverse))};
}

// The first of the elements that equal the maximum (minimum) so far takes the gradient: the element at which
// the result last changed.
template <bool is_max>
std::vector<Value> CumulativeExtremumGrad(const GradView& view) {
  const Value &x = view.operands[0], &g = view.result_grads[0];
  if (!IsFloat(x.dtype())) return {Value()};
  const int64_t dim = DimOf(view);
  const bool reverse = IsReverse(view);
  const auto running = [&](bool exclusive) {
    return is_max ? Cummax(x, dim, exclusive, reverse) : Cummin(x, dim, exclusive, reverse);
  };
  const Value before = running(true);
  const Value is_new = is_max ? Greater(x, before) : Less(x, before);
  // Places count in the direction of the run, from 1; there is none before the first.
  const Value at = Iota(*x.graph(), {I32, x.shape()}, dim), size = DimensionSize(x, {dim}, I32);
  const Value place = reverse ? Sub(size, at) : Add(at, 1.0);
  const Value last = Cummax(Select(is_new, place, 0.0), dim, IsExclusive(view), reverse);
  const Value own = Select(Greater(last, 0.0), g, 0.0);
  const Value index = reverse ? Sub(size, last) : Sub(last, 1.0);
  return {ScatterAddAlongDim(own, index, x.shape(), dim)};
}

// The gradient of h runs the other way: s_i = g_i + a_{i+1} s_{i+1}. It is that of b; that of a_i is
// s_i h_{i-1}.
std::vector<Value> RecurrenceGrad(const GradView& view) {
  const Value &a = view.operands[0], &h = view.results[0], &g = view.result_grads[0];
  const int64_t dim = DimOf(view);
  const bool reverse = IsReverse(view);
  const Value s = LinearRecurrence(Shifted(a, dim, reverse), g, dim, !reverse);
  return {Mul(s, Shifted(h, dim, !reverse)), s};
}

// Runs within the blocks, each of which begins with the total of all blocks before it. In bf16 that would
// round twice.
template <ReduceOp op>
std::vector<Value> CumulativeBlockwise(const BlockwiseView& view) {
  const DType dtype = view.operands[0].dtype();
  // The product of a block may be infinite where one of those before it is 0.
  if (op == ReduceOp::kProd && IsFloat(dtype)) return {};
  const Value x = dtype == BF16 ? Cast(view.operands[0], F32) : view.operands[0];
  const int64_t dim = view.attrs.Get<int64_t>("dim");
  const bool exclusive = view.attrs.Get<bool>("exclusive"), reverse = view.attrs.Get<bool>("reverse");
  const Blocks blocks(view, x, dim);
  if (blocks.size() < 2 || !blocks.CanFill(x.dtype(), op == ReduceOp::kMin)) return {};
  const Ints within = {dim + 1};
  const auto scan = [&](const Value& v, int64_t d, bool excludes) {
    if constexpr (op == ReduceOp::kSum) return Cumsum(v, d, excludes, reverse);
    else if constexpr (op == ReduceOp::kProd) return Cumprod(v, d, excludes, reverse);
    else if constexpr (op == ReduceOp::kMax) return Cummax(v, d, excludes, reverse);
    else return Cummin(v, d, excludes, reverse);
  };
  const auto fold = [&](const Value& v) {
    if constexpr (op == ReduceOp::kSum) return ReduceSum(v, within, /*keep_dims=*/true);
    else if constexpr (op == ReduceOp::kProd) return ReduceProd(v, within, /*keep_dims=*/true);
    else if constexpr (op == ReduceOp::kMax) return ReduceMax(v, within, /*keep_dims=*/true);
    else return ReduceMin(v, within, /*keep_dims=*/true);
  };
  const auto join = [&](const Value& a, const Value& b) {
    if constexpr (op == ReduceOp::kSum) return Add(a, b);
    else if constexpr (op == ReduceOp::kProd) return Mul(a, b);
    else if constexpr (op == ReduceOp::kMax) return Maximum(a, b);
    else return Minimum(a, b);
  };
  constexpr bool is_max = op == ReduceOp::kMax, is_min = op == ReduceOp::kMin;
  const double identity = is_max   ? LowestOf(x.dtype())
                          : is_min ? HighestOf(x.dtype())
                                   : (op == ReduceOp::kProd ? 1.0 : 0.0);
  const Value split = blocks.Split(x, identity);
  const Value before = blocks.Scattered(scan(blocks.Gathered(fold(split)), dim, /*excludes=*/true));
  const Value joined = blocks.Join(join(scan(split, dim + 1, exclusive), before));
  return {dtype == BF16 ? Cast(joined, BF16) : joined};
}

double RecurrenceFlops(const OpView& view) { return 2 * static_cast<double>(view.results[0].num_elements()); }

// ---- Kernels.

// The elements of a column in the order of the run.
struct Course {
  int64_t n;
  bool reverse;

  int64_t operator[](int64_t k) const { return reverse ? n - 1 - k : k; }
};

// Columns of one slab, side by side; `step(k-th position, first column, count, running values)` sets them.
constexpr int64_t kTile = 256;

template <typename T, typename F>
void FoldColumns(const Course& course, int64_t inner, bool exclusive, const T* x, int64_t first, int64_t end,
                 T* out) {
  std::array<Compute<T>, kTile> running;
  for (int64_t c = first; c < end; c += kTile) {
    const int64_t count = std::min(kTile, end - c);
    std::fill_n(running.begin(), count, F::Identity());
    for (int64_t k = 0; k < course.n; ++k) {
      const T* from = x + course[k] * inner + c;
      T* to = out + course[k] * inner + c;
      if (exclusive) {
        MESHWORK_INDEPENDENT
        for (int64_t i = 0; i < count; ++i) {
          const Compute<T> before = running[i];
          running[i] = F::Apply(before, from[i]);
          to[i] = static_cast<T>(before);
        }
      } else {
        MESHWORK_INDEPENDENT
        for (int64_t i = 0; i < count; ++i) {
          running[i] = F::Apply(running[i], from[i]);
          to[i] = static_cast<T>(running[i]);
        }
      }
    }
  }
}

template <template <typename> typename F>
Kernel CumulativeCpu(const KernelSpec& spec) {
  const ColumnSizes sizes(spec.operands[0].local.shape, spec.attrs.Get<int64_t>("dim"));
  const bool exclusive = spec.attrs.Get<bool>("exclusive");
  const Course course{sizes.n, spec.attrs.Get<bool>("reverse")};
  return Dispatch(spec.results[0].local.dtype, [&](auto zero) -> Kernel {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, bool>) return {};
    else
      return ColumnKernel(
          sizes, 1, OnThisCpu<kMostLevel<T>>([=](const KernelArgs& args) {
            ForEachSlab(sizes, args.begin, args.end, [&](int64_t o, int64_t first, int64_t end) {
              const int64_t at = o * sizes.n * sizes.inner;
              FoldColumns<T, F<Compute<T>>>(course, sizes.inner, exclusive, args.In<T>(0) + at, first, end,
                                            args.Out<T>(0) + at);
            });
          }));
  });
}

template <typename T>
void RecurColumns(const Course& course, int64_t inner, const T* a, const T* b, int64_t first, int64_t end,
                  T* out) {
  std::array<Compute<T>, kTile> h = {};
  for (int64_t c = first; c < end; c += kTile) {
    const int64_t count = std::min(kTile, end - c);
    for (int64_t k = 0; k < course.n; ++k) {
      const int64_t at = course[k] * inner + c;
      MESHWORK_INDEPENDENT
      for (int64_t i = 0; i < count; ++i) {
        // The first element has no predecessor; 0 times a would be NaN if a is infinite.
        h[i] = k == 0 ? Compute<T>(b[at + i]) : Compute<T>(a[at + i]) * h[i] + Compute<T>(b[at + i]);
        out[at + i] = static_cast<T>(h[i]);
      }
    }
  }
}

Kernel RecurrenceCpu(const KernelSpec& spec) {
  const ColumnSizes sizes(spec.operands[0].local.shape, spec.attrs.Get<int64_t>("dim"));
  const Course course{sizes.n, spec.attrs.Get<bool>("reverse")};
  return Dispatch(spec.results[0].local.dtype, [&](auto zero) -> Kernel {
    using T = decltype(zero);
    if constexpr (!kIsReal<T>) return {};
    else
      return ColumnKernel(sizes, 2, OnThisCpu<kMostLevel<T>>([=](const KernelArgs& args) {
                            ForEachSlab(
                                sizes, args.begin, args.end, [&](int64_t o, int64_t first, int64_t end) {
                                  const int64_t at = o * sizes.n * sizes.inner;
                                  RecurColumns<T>(course, sizes.inner, args.In<T>(0) + at, args.In<T>(1) + at,
                                                  first, end, args.Out<T>(0) + at);
                                });
                          }));
  });
}

// ---- Rows.

template <ReduceOp op>
OpRow CumulativeRow(std::string_view name, std::string_view doc, std::vector<Value> (*grad)(const GradView&),
                    KernelFactory cpu, double sample_low = -1, double sample_high = 1) {
  return {.name = name,
          .doc = doc,
          .attrs = {{"dim", AttrKind::kInt},
                    {"exclusive", AttrKind::kBool, false},
                    {"reverse", AttrKind::kBool, false}},
          .infer = InferCumulative,
          .rule = CumulativeRule<op>,
          .blockwise = CumulativeBlockwise<op>,
          .grad = grad,
          .cpu = cpu,
          .stack = StackAlongDim,
          .is_light = true,
          .samples = {"f32[4,6]; dim=1", "f64[4,3]; dim=0", "f32[2,4,3]; dim=1 exclusive=true",
                      "f64[4,6]; dim=1 reverse=true", "bf16[4,6]; dim=1 exclusive=true reverse=true",
                      "i32[4,6]; dim=0 exclusive=true", "i64[5]; dim=0"},
          .sample_low = sample_low,
          .sample_high = sample_high};
}

}  // namespace

std::span<const OpRow> CumulativeOps() {
  static const auto* rows = new std::vector<OpRow>{
      CumulativeRow<ReduceOp::kSum>("cumsum", "sums of the elements up to each along dim", CumsumGrad,
                                    CumulativeCpu<SumOf>),
      CumulativeRow<ReduceOp::kProd>("cumprod", "products of the elements up to each along dim", CumprodGrad,
                                     CumulativeCpu<ProdOf>, 0.75, 1.5),
      CumulativeRow<ReduceOp::kMax>("cummax",
                                    "maxima of the elements up to each along dim; NaN from the first NaN on",
                                    CumulativeExtremumGrad<true>, CumulativeCpu<MaxOf>),
      CumulativeRow<ReduceOp::kMin>("cummin",
                                    "minima of the elements up to each along dim; NaN from the first NaN on",
                                    CumulativeExtremumGrad<false>, CumulativeCpu<MinOf>),
      {.name = "linear_recurrence",
       .doc = "h[i] = a[i] h[i-1] + b[i] along dim; h[0] = b[0]",
       .num_operands = 2,
       .attrs = {{"dim", AttrKind::kInt}, {"reverse", AttrKind::kBool, false}},
       .infer = InferRecurrence,
       .rule = RecurrenceRule,
       .grad = RecurrenceGrad,
       .flops = RecurrenceFlops,
       .cpu = RecurrenceCpu,
       .stack = StackAlongDim,
       .is_light = true,
       .samples = {"f32[4,6], f32[4,6]; dim=1", "f64[4,3], f64[4,3]; dim=0",
                   "f64[2,4,3], f64[2,4,3]; dim=1 reverse=true", "bf16[5], bf16[5]; dim=0"}},
  };
  return *rows;
}

Value AddCumulative(std::string_view op, const Operand& x, int64_t dim, bool exclusive, bool reverse) {
  return AddOpAlong(op, {x}, dim, {{"exclusive", exclusive}, {"reverse", reverse}});
}

Value Cumsum(const Operand& x, int64_t dim, bool exclusive, bool reverse) {
  return AddCumulative("cumsum", x, dim, exclusive, reverse);
}
Value Cumprod(const Operand& x, int64_t dim, bool exclusive, bool reverse) {
  return AddCumulative("cumprod", x, dim, exclusive, reverse);
}
Value Cummax(const Operand& x, int64_t dim, bool exclusive, bool reverse) {
  return AddCumulative("cummax", x, dim, exclusive, reverse);
}
Value Cummin(const Operand& x, int64_t dim, bool exclusive, bool reverse) {
  return AddCumulative("cummin", x, dim, exclusive, reverse);
}
Value LinearRecurrence(const Operand& a, const Operand& b, int64_t dim, bool reverse) {
  return AddOpAlong("linear_recurrence", {a, b}, dim, {{"reverse", reverse}});
}

}  // namespace meshwork
