// The arithmetic family: sums, products, powers, extrema of numbers.
#include <cmath>

#include "meshwork/base/status.h"
#include "meshwork/ir/gradients.h"
#include "meshwork/ops/elementwise.h"
#include "meshwork/ops/families.h"

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
                        return portable::Clipped(x, portable::Bound<T>(low), portable::Bound<T>(high));
                      });
}

// ---- Rows.

template <Elements elements = Elements::kNumber, typename F>
OpRow Pair(std::string_view name, std::string_view doc, Rule (*rule)(const OpView&),
           std::vector<Value> (*grad)(const GradView&), Scalar<F> scalar) {
  return {.name = name,
          .doc = doc,
          .num_operands = 2,
          .infer = InferSame<elements>,
          .rule = rule,
          .grad = grad,
          .cpu = ForPairs<elements>(scalar.f),
          .scalar = scalar.text,
          .stack = StackBroadcast,
          .is_light = true,
          .in_place = {0},
          .samples = {"f32[4,6], f32[4,6]", "f32[4,6], f32[6]", "f64[4,1], f64[4,6]", "f32[5,3], f32[]",
                      "bf16[4,6], bf16[6]", "i32[4,6], i32[6]"}};
}

template <typename F>
OpRow Number(std::string_view name, std::string_view doc, Rule (*rule)(const OpView&),
             std::vector<Value> (*grad)(const GradView&), Scalar<F> scalar) {
  return {.name = name,
          .doc = doc,
          .infer = InferSame<Elements::kNumber>,
          .rule = rule,
          .grad = grad,
          .cpu = ForNumbers(scalar.f),
          .scalar = scalar.text,
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

std::vector<OpRow> BinaryRows() {
  std::vector<OpRow> rows = {
      Pair("add", "a + b", AddRule, AddGrad, MESHWORK_OF_AB(Sum(a, b))),
      Pair("sub", "a - b", AddRule, SubGrad, MESHWORK_OF_AB(Difference(a, b))),
      Pair("mul", "a * b", MulRule, MulGrad, MESHWORK_OF_AB(Product(a, b))),
      Pair("div", "a / b; whole numbers round towards zero, x/0 is 0", DivRule, DivGrad,
           MESHWORK_OF_AB(Quotient(a, b))),
      Within(Pair("remainder", "a - trunc(a/b) b, with the sign of a; of whole numbers by 0 it is a",
                  OpaqueRule, RemainderGrad, MESHWORK_OF_AB(Remainder(a, b))),
             0.25, 2),
      Within(Pair("pow", "a to the b; whole a^-b is 1/a^b rounded towards zero, 0^-b is 0", OpaqueRule,
                  PowGrad, MESHWORK_OF_AB(Power(a, b))),
             0.25, 2),
      Pair("maximum", "the larger of a and b; NaN if either is, 0 above -0", ExtremumRule<ReduceOp::kMax>,
           MaximumGrad, MESHWORK_OF_AB(Larger(a, b))),
      Pair("minimum", "the smaller of a and b; NaN if either is, -0 below 0", ExtremumRule<ReduceOp::kMin>,
           MinimumGrad, MESHWORK_OF_AB(Smaller(a, b))),
      Pair("squared_difference", "(a - b)²", OpaqueRule, SquaredDifferenceGrad,
           MESHWORK_OF_AB(Product(Difference(a, b), Difference(a, b)))),
      Pair<Elements::kReal>("atan2", "the angle of the point (b, a), in (-π, π]", OpaqueRule, Atan2Grad,
                            MESHWORK_OF_AB(Atan2(a, b))),
  };
  rows.back().samples.pop_back();  // of whole numbers
  return rows;
}

std::vector<OpRow> UnaryRows() {
  auto neg = [](const Value& g, const Value&, const Value&) { return Neg(g); };
  auto abs = [](const Value& g, const Value& x, const Value&) { return g * Sign(x); };
  auto square = [](const Value& g, const Value& x, const Value&) { return g * 2.0 * x; };
  auto reciprocal = [](const Value& g, const Value&, const Value& y) { return Neg(g * y * y); };
  return {
      Number("neg", "-x", NegRule, UnaryGrad<decltype(neg)>, MESHWORK_OF_X(Negated(x))),
      Number("abs", "|x|; the least whole number stays", AbsRule, UnaryGrad<decltype(abs)>,
             MESHWORK_OF_X(Absolute(x))),
      Number("sign", "-1, 0 or 1; NaN stays", SignRule, ZeroGradient,
             MESHWORK_OF_X(x > T(0)   ? T(1)
                           : x < T(0) ? T(-1)
                                      : x)),
      Number("square", "x²", SquareRule, UnaryGrad<decltype(square)>, MESHWORK_OF_X(Product(x, x))),
      RealRow("reciprocal", "1 / x", MESHWORK_OF_X(T(1) / x), reciprocal,
              {.rule = SquareRule, .sample_low = 0.25}),
      {.name = "clip",
       .doc = "min(max(x, low), high); NaN stays",
       .attrs = {{"low", AttrKind::kFloat}, {"high", AttrKind::kFloat}},
       .infer = InferClip,
       .rule = GrowingRule,
       .grad = ClipGrad,
       .cpu = ClipCpu,
       .scalar = "Clipped(x, Bound<T>({low}), Bound<T>({high}))",
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
