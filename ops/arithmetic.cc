// The arithmetic family: sums, products, powers, extrema of numbers.
#include <cmath>
#include <limits>

#include "meshwork/base/status.h"
#include "meshwork/ir/gradients.h"
#include "meshwork/ops/elementwise.h"
#include "meshwork/ops/families.h"
#include "meshwork/ops/kernels/reduce.h"

namespace meshwork {
namespace {

Value G(const GradView& view) { return view.result_grads[0]; }
bool IsReal(const OpView& view) { return IsFloat(view.results[0].dtype); }

// ---- Rules. Whole numbers that overflow wrap around, which keeps sums and products but not the order.

// Not maxima: a part may be -inf, as an empty shard's is, and meet a whole of inf.
Rule AddRule(const OpView& view) { return ElementwiseRule(view, Linear(Which::kAll)); }
Rule MulRule(const OpView& view) { return ElementwiseRule(view, Linear(Which::kOne) + Multiplicative()); }
// For reals only, because a quotient of whole numbers is rounded.
Rule DivRule(const OpView& view) {
  return ElementwiseRule(view, IsReal(view) ? Linear(Which::kFirst) + Multiplicative() : Passes());
}
// max(max_i(a_i), b) = max_i(max(a_i, b)), and the same with the least of the a_i.
template <ReduceOp op>
Rule ExtremumRule(const OpView& view) {
  return ElementwiseRule(view, Grows(Which::kOne, F32, F32) + Passes{{Which::kAll, op, op}});
}
Rule NegRule(const OpView& view) {
  return ElementwiseRule(view, Linear(Which::kAll) + (IsReal(view) ? Decreasing() : Passes()));
}
Rule SquareRule(const OpView& view) { return ElementwiseRule(view, Multiplicative()); }
Rule AbsRule(const OpView& view) { return ElementwiseRule(view, IsReal(view) ? Multiplicative() : Passes()); }
Rule SignRule(const OpView& view) {
  return ElementwiseRule(view, Increasing());  // not products: inf times 0 is NaN
}

// ---- Gradients.

std::vector<Value> AddGrad(const GradView& v) { return Fit(v, {G(v), G(v)}); }
std::vector<Value> SubGrad(const GradView& v) { return Fit(v, {G(v), Neg(G(v))}); }
std::vector<Value> MulGrad(const GradView& v) {
  return Fit(v, {Mul(G(v), v.operands[1]), Mul(G(v), v.operands[0])});
}
std::vector<Value> DivGrad(const GradView& v) {
  return Fit(v, {Div(G(v), v.operands[1]), Neg(Mul(G(v), Div(v.results[0], v.operands[1])))});
}
// If both are equal, the first one takes the gradient.
std::vector<Value> MaximumGrad(const GradView& v) {
  Value first = GreaterEqual(v.operands[0], v.operands[1]);
  return Fit(v, {Select(first, G(v), 0.0), Select(first, 0.0, G(v))});
}
std::vector<Value> MinimumGrad(const GradView& v) {
  Value first = LessEqual(v.operands[0], v.operands[1]);
  return Fit(v, {Select(first, G(v), 0.0), Select(first, 0.0, G(v))});
}
// By a: b a^(b-1), which is 0 if b is 0. By b: log(a) a^b, which is 0 at a = 0, and taken as 0 for a < 0,
// where a^b is not a function of a real b. Values that are not selected are computed from 1, so that
// gradients of gradients stay finite.
std::vector<Value> PowGrad(const GradView& v) {
  const Value &a = v.operands[0], &b = v.operands[1];
  Value constant = Equal(b, 0.0), undefined = LessEqual(a, 0.0);
  Value by_a = Select(constant, 0.0, G(v) * b * Pow(a, Select(constant, 1.0, b) - 1.0));
  Value by_b = Select(undefined, 0.0, G(v) * v.results[0] * Log(Select(undefined, 1.0, a)));
  return Fit(v, {by_a, by_b});
}
std::vector<Value> RemainderGrad(const GradView& v) {
  return Fit(v, {G(v), Neg(G(v) * Trunc(v.operands[0] / v.operands[1]))});
}
// x/(x²+y²) and -y/(x²+y²), scaled so that the squares neither overflow nor vanish.
std::vector<Value> Atan2Grad(const GradView& v) {
  const Value &y = v.operands[0], &x = v.operands[1];
  Value scale = Maximum(Abs(x), Abs(y));
  Value p = x / scale, q = y / scale;
  Value share = G(v) / (scale * (p * p + q * q));
  return Fit(v, {share * p, Neg(share * q)});
}
std::vector<Value> SquaredDifferenceGrad(const GradView& v) {
  Value by_a = G(v) * 2.0 * (v.operands[0] - v.operands[1]);
  return Fit(v, {by_a, Neg(by_a)});
}
std::vector<Value> ClipGrad(const GradView& v) {
  const Value& x = v.operands[0];
  Value above = GreaterEqual(x, v.attrs.Get<double>("low")),
        below = LessEqual(x, v.attrs.Get<double>("high"));
  return {Select(And(above, below), G(v), 0.0)};
}

// ---- Functions of elements. Signed overflow wraps, as on every device.

template <typename Op>
struct Wrapping {
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(Op{}(static_cast<U>(a), static_cast<U>(b)));
    } else {
      return Op{}(a, b);
    }
  }
};
template <typename Op>
Wrapping<Op> Wraps(Op) {
  return {};
}

template <typename T>
T Negated(T a) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(a));
  else return -a;
}
template <typename T>
T Multiplied(T a, T b) {
  return Wrapping<std::multiplies<>>{}(a, b);
}
template <typename T>
T Divided(T a, T b) {
  if constexpr (std::is_integral_v<T>) {  // defined for every input: x/0 = 0, min/-1 wraps
    if (b == 0) return 0;
    if (b == -1) return Negated(a);
  }
  return a / b;
}
// a - (a/b) b, so that the remainder by 0 is a.
template <typename T>
T RemainderOf(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b == 0) return a;
    return b == -1 ? 0 : a % b;
  } else {
    return std::fmod(a, b);
  }
}
// By squaring; a^-n is 1/a^n rounded towards zero, and 0 for a = 0, as division has it.
template <typename T>
T Power(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b < 0) return a == 1 ? 1 : a != -1 ? 0 : b % 2 == 0 ? 1 : -1;
    T result = 1;
    for (; b > 0; b /= 2, a = Multiplied(a, a))
      if (b % 2 == 1) result = Multiplied(result, a);
    return result;
  } else {
    return std::pow(a, b);
  }
}
template <typename T>
T Signum(T a) {
  if constexpr (std::is_integral_v<T>) return a > 0 ? 1 : a < 0 ? -1 : 0;
  else return a > T(0) ? T(1) : a < T(0) ? T(-1) : a;  // keeps NaN and the sign of zero
}

template <typename T>
T Bound(double x) {
  if constexpr (std::is_integral_v<T>) {
    if (x <= static_cast<double>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
    if (x >= static_cast<double>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
  }
  return static_cast<T>(x);
}

// ---- Clip.

absl::StatusOr<std::vector<Type>> InferClip(const OpView& view) {
  const double low = view.attrs.Get<double>("low"), high = view.attrs.Get<double>("high");
  if (!(low <= high)) return InvalidArgument("low={} is not below or at high={}.", low, high);
  for (const double bound : {low, high}) {
    if (IsInteger(view.operands[0].dtype) && std::isfinite(bound) && bound != std::trunc(bound))
      return InvalidArgument("the bound {} is not a whole number, and the operand is {}.", bound,
                             view.operands[0].ToString());
  }
  return InferBroadcast(Elements::kNumber, view);
}

Kernel ClipCpu(const KernelSpec& spec) {
  return NumberKernel(spec,
                      [low = spec.attrs.Get<double>("low"), high = spec.attrs.Get<double>("high")](auto x) {
                        using T = decltype(x);
                        const T least = Bound<T>(low), most = Bound<T>(high);
                        return x < least ? least : x > most ? most : x;
                      });
}

// ---- Rows.

OpRow Pair(std::string_view name, std::string_view doc, Rule (*rule)(const OpView&),
           std::vector<Value> (*grad)(const GradView&), KernelFactory cpu) {
  return {.name = name,
          .doc = doc,
          .num_operands = 2,
          .infer = InferSame<Elements::kNumber>,
          .rule = rule,
          .grad = grad,
          .cpu = cpu,
          .stack = StackBroadcast,
          .is_light = true,
          .in_place = {0},
          .samples = {"f32[4,6], f32[4,6]", "f32[4,6], f32[6]", "f64[4,1], f64[4,6]", "f32[5,3], f32[]",
                      "bf16[4,6], bf16[6]", "i32[4,6], i32[6]"}};
}

template <typename F>
OpRow Number(std::string_view name, std::string_view doc, Rule (*rule)(const OpView&),
             std::vector<Value> (*grad)(const GradView&), F f) {
  return {.name = name,
          .doc = doc,
          .infer = InferSame<Elements::kNumber>,
          .rule = rule,
          .grad = grad,
          .cpu = ForNumbers(f),
          .stack = StackBroadcast,
          .is_light = true,
          .in_place = {0},
          .samples = {"f32[4,6]", "f64[5]", "bf16[6]", "i32[5]"},
          .sample_low = -2,
          .sample_high = 2};
}

OpRow Within(OpRow row, double low, double high) {
  row.sample_low = low;
  row.sample_high = high;
  return row;
}
OpRow OfReals(OpRow row) {
  row.infer = InferSame<Elements::kReal>;
  row.samples.pop_back();
  return row;
}

template <typename F>
KernelFactory PairCpu(F f) {
  return ForPairs<Elements::kNumber>(f);
}

std::vector<OpRow> BinaryRows() {
  return {
      Pair("add", "a + b", AddRule, AddGrad, PairCpu(Wraps([](auto a, auto b) { return a + b; }))),
      Pair("sub", "a - b", AddRule, SubGrad, PairCpu(Wraps([](auto a, auto b) { return a - b; }))),
      Pair("mul", "a * b", MulRule, MulGrad, PairCpu(Wraps([](auto a, auto b) { return a * b; }))),
      Pair("div", "a / b; whole numbers round towards zero, x/0 is 0", DivRule, DivGrad,
           PairCpu([](auto a, auto b) { return Divided(a, b); })),
      Within(Pair("remainder", "a - trunc(a/b) b, with the sign of a; of whole numbers by 0 it is a",
                  OpaqueRule, RemainderGrad, PairCpu([](auto a, auto b) { return RemainderOf(a, b); })),
             0.25, 2),
      Within(Pair("pow", "a to the b; whole a^-b is 1/a^b rounded towards zero, 0^-b is 0", OpaqueRule,
                  PowGrad, PairCpu([](auto a, auto b) { return Power(a, b); })),
             0.25, 2),
      Pair("maximum", "the larger of a and b; NaN if either is, 0 above -0", ExtremumRule<ReduceOp::kMax>,
           MaximumGrad, PairCpu([](auto a, auto b) { return MaxOf<decltype(a)>::Apply(a, b); })),
      Pair("minimum", "the smaller of a and b; NaN if either is, -0 below 0", ExtremumRule<ReduceOp::kMin>,
           MinimumGrad, PairCpu([](auto a, auto b) { return MinOf<decltype(a)>::Apply(a, b); })),
      Pair("squared_difference", "(a - b)²", OpaqueRule, SquaredDifferenceGrad,
           PairCpu(Wraps([](auto a, auto b) { return static_cast<decltype(a)>((a - b) * (a - b)); }))),
      OfReals(Pair("atan2", "the angle of the point (b, a), in (-π, π]", OpaqueRule, Atan2Grad,
                   ForPairs<Elements::kReal>([](auto a, auto b) { return std::atan2(a, b); }))),
  };
}

std::vector<OpRow> UnaryRows() {
  auto neg = [](const Value& g, const Value&, const Value&) { return Neg(g); };
  auto abs = [](const Value& g, const Value& x, const Value&) { return g * Sign(x); };
  auto square = [](const Value& g, const Value& x, const Value&) { return g * 2.0 * x; };
  auto reciprocal = [](const Value& g, const Value&, const Value& y) { return Neg(g * y * y); };
  return {
      Number("neg", "-x", NegRule, UnaryGrad<decltype(neg)>, [](auto x) { return Negated(x); }),
      Number("abs", "|x|; the least whole number stays", AbsRule, UnaryGrad<decltype(abs)>,
             [](auto x) {
               if constexpr (std::is_integral_v<decltype(x)>) return x < 0 ? Negated(x) : x;
               else return std::fabs(x);
             }),
      Number("sign", "-1, 0 or 1; NaN stays", SignRule, ZeroGradient, [](auto x) { return Signum(x); }),
      Number("square", "x²", SquareRule, UnaryGrad<decltype(square)>,
             [](auto x) { return Multiplied(x, x); }),
      RealRow("reciprocal", "1 / x", [](auto x) { return decltype(x)(1) / x; }, reciprocal,
              {.rule = SquareRule, .sample_low = 0.25}),
      {.name = "clip",
       .doc = "min(max(x, low), high); NaN stays",
       .attrs = {{"low", AttrKind::kFloat}, {"high", AttrKind::kFloat}},
       .infer = InferClip,
       .rule = GrowingRule,
       .grad = ClipGrad,
       .cpu = ClipCpu,
       .stack = StackBroadcast,
       .is_light = true,
       .in_place = {0},
       .samples = {"f32[4,6]; low=-0.5 high=0.75", "f64[5]; low=0 high=inf", "bf16[6]; low=0 high=1",
                   "i32[5]; low=2 high=4"}},
  };
}

}  // namespace

std::span<const OpRow> ArithmeticOps() {
  static const auto* rows = [] {
    auto* all = new std::vector<OpRow>(BinaryRows());
    for (OpRow& row : UnaryRows()) all->push_back(std::move(row));
    return all;
  }();
  return *rows;
}

Value Add(const Operand& a, const Operand& b) { return AddOp("add", {a, b}); }
Value Sub(const Operand& a, const Operand& b) { return AddOp("sub", {a, b}); }
Value Mul(const Operand& a, const Operand& b) { return AddOp("mul", {a, b}); }
Value Div(const Operand& a, const Operand& b) { return AddOp("div", {a, b}); }
Value Remainder(const Operand& a, const Operand& b) { return AddOp("remainder", {a, b}); }
Value Pow(const Operand& a, const Operand& b) { return AddOp("pow", {a, b}); }
Value Maximum(const Operand& a, const Operand& b) { return AddOp("maximum", {a, b}); }
Value Minimum(const Operand& a, const Operand& b) { return AddOp("minimum", {a, b}); }
Value SquaredDifference(const Operand& a, const Operand& b) { return AddOp("squared_difference", {a, b}); }
Value Atan2(const Operand& y, const Operand& x) { return AddOp("atan2", {y, x}); }

Value Neg(const Operand& x) { return AddOp("neg", {x}); }
Value Abs(const Operand& x) { return AddOp("abs", {x}); }
Value Sign(const Operand& x) { return AddOp("sign", {x}); }
Value Square(const Operand& x) { return AddOp("square", {x}); }
Value Reciprocal(const Operand& x) { return AddOp("reciprocal", {x}); }
Value Clip(const Operand& x, double low, double high) {
  return AddOp("clip", {x}, {{"low", low}, {"high", high}});
}

}  // namespace meshwork
