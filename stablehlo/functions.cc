// The forms of functions of one real, special functions, and activations. Their kernels' functions are in
// ops/kernels/portable/{reals,special,activations}.h.
#include <cmath>
#include <limits>
#include <numbers>

#include "meshwork/ops/kernels/portable/activations.h"
#include "meshwork/ops/kernels/portable/special.h"
#include "meshwork/stablehlo/elementwise_form.h"

namespace meshwork::stablehlo {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity(),
                 kNan = std::numeric_limits<double>::quiet_NaN();

Term FloorOf(const Term& x) { return Apply("stablehlo.floor", {x}); }
Term TruncOf(const Term& x) { return Where(x < 0, Apply("stablehlo.ceil", {x}), FloorOf(x)); }
Term SqrtOf(const Term& x) { return Apply("stablehlo.sqrt", {x}); }
Term Log1pOf(const Term& x) { return Apply("stablehlo.log_plus_one", {x}); }
Term TanhOf(const Term& x) { return Apply("stablehlo.tanh", {x}); }
Term ErfcOf(const Term& x) { return Apply("chlo.erfc", {x}); }
Term PowOf(const Term& x, double power) { return Apply("stablehlo.power", {x, x.Constant(power)}); }

// ---- Special functions.

// a in [0, 1). In f64 two steps of Halley's follow, as in portable::ErfInverse: where a is near 1 the function there loses digits.
Term ErfInverseOf(const Term& x) {
  const Term a = AbsOf(x.As(F64)), start = Apply("chlo.erf_inv", {a});
  Term y = start;
  for (int step = 0; step < (x.dtype() == F64 ? 2 : 0); ++step) {
    const Term off = Where(a < 0.5, Apply("chlo.erf", {y}) - a, (1 - a) - ErfcOf(y));
    const Term u = off * ExpOf(y * y) * (0.5 / std::numbers::inv_sqrtpi);
    y = y - u / (1 + y * u);
  }
  y = Where(a < 1, y, Where(a == 1, a.Constant(kInf), kNan));
  return y.As(x.dtype()) * Apply("stablehlo.sign", {x});
}

Term LogAddExpOfTerms(const Term& a, const Term& b) {
  const Term difference = a - b;
  const Term apart = Where(difference > 0, a, b) + Log1pOf(ExpOf(-AbsOf(difference)));
  return Where(a == b, a + std::numbers::ln2, apart);
}

Term HypotOf(const Term& a, const Term& b) {
  const Term x = AbsOf(a), y = AbsOf(b);
  const Term large = Apply("stablehlo.maximum", {x, y}), ratio = Apply("stablehlo.minimum", {x, y}) / large;
  const Term infinite = (x == kInf) | (y == kInf);
  return Where(infinite, kInf, Where(large == 0, 0, large * SqrtOf(1 + ratio * ratio)));
}

// ---- Polygamma, in f64, as portable::PolygammaOf.

constexpr int kPolygammaSize = 102;  // of orders up to 100
using PolygammaTable = portable::Polygamma<kPolygammaSize>;

// The terms of x, x + 1, … below `limit`, along a new dim 0, summed.
Term RecurrenceSum(const Term& x, int limit, int order, double factorial) {
  Shape shape = x.value.shape();
  shape.insert(shape.begin(), limit);
  const Term number = x.With(x.text->Iota({F64, shape}, 0));
  const Term shifted = x.With(x.text->Broadcast(x.value, shape)) + number;
  const Term terms = Where(shifted < limit, factorial / PowOf(shifted, order + 1), 0);
  return x.With(x.text->Reduce(ReduceOp::kSum, terms.value, {0}));
}

// The sum of B_2k / (2k)! (order + 2k - 1)! / x^(order + 2k).
Term AsymptoticSeries(const Term& x, int order, double factorial) {
  const double kBernoulli[] = {1.0 / 12,
                               -1.0 / 720,
                               1.0 / 30240,
                               -1.0 / 1209600,
                               1.0 / 47900160,
                               -691.0 / 1307674368000,
                               1.0 / 74724249600,
                               -3617.0 / 10670622842880000,
                               43867.0 / 5109094217170944000,
                               -174611.0 / 802857662698291200000.0};
  const Term square = x * x;
  Term term = factorial * (order + 1) / PowOf(x, order + 2), series = term * kBernoulli[0];
  for (int k = 1; k < 10; ++k) {
    const double m = order + 2 * k;
    term = term * (m * (m + 1) / square);
    series = series + term * kBernoulli[k];
  }
  return series;
}

Term PolygammaOfPositiveTerm(const Term& x, int order, double factorial) {
  const int limit = 10 + order;
  const Term shifts = RecurrenceSum(x, limit, order, factorial);
  const Term far = Where(x < limit, x + Apply("stablehlo.ceil", {limit - x}), x);
  const Term series = AsymptoticSeries(far, order, factorial);
  if (order == 0) return Where(x == kInf, x, LogOf(far) - 0.5 / far - series - shifts);
  const Term sum =
      factorial / order / PowOf(far, order) + 0.5 * factorial / PowOf(far, order + 1) + series + shifts;
  return Where(x == kInf, 0, order % 2 == 0 ? -sum : sum);
}

// π^(order + 1) times the polynomial of cot(πx).
Term CotangentPart(const Term& x, const PolygammaTable& table) {
  const Term fraction = x - Apply("stablehlo.round_nearest_afz", {x});
  const Term cotangent = 1 / Apply("stablehlo.tan", {fraction * std::numbers::pi});
  Term polynomial = x.Constant(table.cot[table.order + 1]);
  for (int i = table.order; i >= 0; --i) polynomial = polynomial * cotangent + table.cot[i];
  return polynomial * std::pow(std::numbers::pi, table.order + 1.0);
}

Term PolygammaOfTerm(const Attrs& attrs, const Term& given) {
  const int order = static_cast<int>(attrs.Get<int64_t>("order"));
  const auto table = portable::MakePolygamma<kPolygammaSize>(order, std::tgamma(order + 1.0));
  const bool is_odd = order % 2 != 0;
  const Term x = given.As(F64), positive = x > 0;
  const Term whole = PolygammaOfPositiveTerm(Where(positive, x, 1 - x), order, table.factorial);
  const Term mirrored = (is_odd ? -whole : whole) - CotangentPart(x, table);
  const Term pole = Where(x == -kInf, x.Constant(kNan), is_odd ? kInf : kNan);
  return Where(positive, whole, Where(x == FloorOf(x), pole, mirrored)).As(given.dtype());
}

// ---- Activations.

Term SigmoidOf(const Term& x) {
  const Term e = ExpOf(-AbsOf(x));
  return Where(x < 0, e, 1) / (1 + e);
}
Term SoftplusOf(const Term& x) { return Where(x > 0, x, 0) + Log1pOf(ExpOf(-AbsOf(x))); }
// x times a gate that vanishes faster than x grows.
Term GatedBy(const Term& x, const Term& gate) { return Where(gate == 0, -0.0, x * gate); }
Term Relu6Of(const Term& x) { return Where(x < 0, 0, Where(x > 6, 6, x)); }
Term LeakyReluOf(const Attrs& attrs, const Term& x) {
  const double alpha = attrs.Get<double>("alpha");
  return Where(x < 0, alpha == 0 ? x.Constant(0) : alpha * x, x);
}
Term EluOf(const Term& x, double alpha) {
  return Where(x > 0, x, alpha * Apply("stablehlo.exponential_minus_one", {x}));
}
Term GeluOf(const Attrs& attrs, const Term& x) {
  if (!attrs.Get<bool>("tanh")) return GatedBy(x, 0.5 * ErfcOf(x * -portable::kSqrtHalf));
  return GatedBy(x, SigmoidOf(2 * portable::kTanhScale * (x + portable::kTanhCube * x * x * x)));
}
Term HardSigmoidOf(const Term& x) { return Where(x < -3, 0, Where(x > 3, 1, (x + 3) / 6)); }

// ---- Table.

constexpr NamedForm kFunctionForms[] = {
    {"exp", OneOp<"stablehlo.exponential">},
    {"expm1", OneOp<"stablehlo.exponential_minus_one">},
    {"log", OneOp<"stablehlo.log">},
    {"log1p", OneOp<"stablehlo.log_plus_one">},
    {"sqrt", OneOp<"stablehlo.sqrt">},
    {"rsqrt", Formula<[](const Term& x) { return 1 / SqrtOf(x); }>},
    {"cbrt", OneOp<"stablehlo.cbrt">},
    {"erf", OneOp<"chlo.erf">},
    {"erfc", OneOp<"chlo.erfc">},
    {"sin", OneOp<"stablehlo.sine">},
    {"cos", OneOp<"stablehlo.cosine">},
    {"tan", OneOp<"stablehlo.tan">},
    {"asin", OneOp<"chlo.asin">},
    {"acos", OneOp<"chlo.acos">},
    {"atan", OneOp<"chlo.atan">},
    {"sinh", OneOp<"chlo.sinh">},
    {"cosh", OneOp<"chlo.cosh">},
    {"tanh", OneOp<"stablehlo.tanh">},
    {"asinh", OneOp<"chlo.asinh">},
    {"acosh", OneOp<"chlo.acosh">},
    {"atanh", OneOp<"chlo.atanh">},
    {"floor", OneOp<"stablehlo.floor">},
    {"ceil", OneOp<"stablehlo.ceil">},
    {"round", OneOp<"stablehlo.round_nearest_even">},
    {"trunc", Formula<TruncOf>},

    {"exp2", Formula<[](const Term& x) {
       return Apply("stablehlo.power", {x.Constant(2), x});
     }>},
    {"log2", Formula<[](const Term& x) { return LogOf(x) / std::numbers::ln2; }>},
    {"log10", Formula<[](const Term& x) { return LogOf(x) / std::numbers::ln10; }>},
    {"lgamma", OneOp<"chlo.lgamma">},
    {"polygamma", Formula<PolygammaOfTerm>},
    {"erfinv", Formula<ErfInverseOf>},
    {"logaddexp", Formula<LogAddExpOfTerms>},
    {"hypot", Formula<HypotOf>},
    {"popcount", OneOp<"stablehlo.popcnt">},
    {"count_leading_zeros", OneOp<"stablehlo.count_leading_zeros">},

    {"relu", Formula<[](const Term& x) { return Where(x < 0, 0, x); }>},
    {"relu6", Formula<Relu6Of>},
    {"leaky_relu", Formula<LeakyReluOf>},
    {"elu", Formula<[](const Attrs& attrs, const Term& x) { return EluOf(x, attrs.Get<double>("alpha")); }>},
    {"selu", Formula<[](const Term& x) { return portable::kSeluScale * EluOf(x, portable::kSeluAlpha); }>},
    {"sigmoid", Formula<SigmoidOf>},
    {"softplus", Formula<SoftplusOf>},
    {"silu", Formula<[](const Term& x) { return GatedBy(x, SigmoidOf(x)); }>},
    {"gelu", Formula<GeluOf>},
    {"mish", Formula<[](const Term& x) { return GatedBy(x, TanhOf(SoftplusOf(x))); }>},
    {"hard_sigmoid", Formula<HardSigmoidOf>},
    {"hard_silu", Formula<[](const Term& x) { return GatedBy(x, HardSigmoidOf(x)); }>},
};

}  // namespace

std::span<const NamedForm> FunctionForms() { return kFunctionForms; }

}  // namespace meshwork::stablehlo
