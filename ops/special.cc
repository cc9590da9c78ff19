// Special functions of reals: powers and logarithms of other bases, the gamma family, the inverse of erf;
// logaddexp and hypot of two reals; and ops that count the bits of whole numbers.
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/ops/elementwise.h"
#include "meshwork/ops/families.h"

namespace meshwork {
namespace {

constexpr double kPi = std::numbers::pi, kLn2 = std::numbers::ln2, kLn10 = std::numbers::ln10;

// ---- The gamma family.

// log |Γ(x)|; std::lgamma writes a global.
float LogGammaOf(float x) {
  int sign = 0;
  return lgammaf_r(x, &sign);
}
double LogGammaOf(double x) {
  int sign = 0;
  return lgamma_r(x, &sign);
}

// The derivative of order n + 1 of log Γ: Abramowitz and Stegun, 6.4. For positive numbers the recurrence
// (6.4.6) up to where the asymptotic series (6.3.18, 6.4.11) holds; for negative ones the reflection (6.4.7),
// with the derivatives of π cot(πx) as polynomials of c = cot(πx): P_0 = c, P_{k+1} = -(1 + c²) P_k'.
class PolygammaFunction {
 public:
  explicit PolygammaFunction(int order) : order_(order), factorial_(std::tgamma(order + 1.0)), cot_({0, 1}) {
    for (int k = 0; k < order; ++k) {
      std::vector<double> next(cot_.size() + 1, 0.0);
      for (size_t i = 1; i < cot_.size(); ++i) {
        const double slope = -static_cast<double>(i) * cot_[i];
        next[i - 1] += slope;
        next[i + 1] += slope;
      }
      cot_ = std::move(next);
    }
  }

  double operator()(double x) const {
    constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
    const bool is_odd = order_ % 2 != 0;
    if (x != x || x == -std::numeric_limits<double>::infinity()) return kNan;
    if (x > 0) return OfPositive(x);
    if (x == std::floor(x)) return is_odd ? std::numeric_limits<double>::infinity() : kNan;
    const double c = 1 / std::tan(kPi * (x - std::round(x)));
    double polynomial = 0;
    for (size_t i = cot_.size(); i-- > 0;) polynomial = polynomial * c + cot_[i];
    const double mirrored = OfPositive(1 - x);
    return (is_odd ? -mirrored : mirrored) - std::pow(kPi, order_ + 1) * polynomial;
  }

 private:
  double OfPositive(double x) const {
    const double n = order_, sign = order_ % 2 == 0 ? -1 : 1;
    double shifts = 0;
    for (; x < 10 + n; x += 1) shifts += factorial_ / std::pow(x, n + 1);
    if (x == std::numeric_limits<double>::infinity()) return order_ == 0 ? x : 0;
    // B_2k / (2k)!
    constexpr std::array<double, 10> kBernoulli = {1.0 / 12,
                                                   -1.0 / 720,
                                                   1.0 / 30240,
                                                   -1.0 / 1209600,
                                                   1.0 / 47900160,
                                                   -691.0 / 1307674368000,
                                                   1.0 / 74724249600,
                                                   -3617.0 / 10670622842880000,
                                                   43867.0 / 5109094217170944000,
                                                   -174611.0 / 802857662698291200000.0};
    // Times (n + 2k - 1)! / x^(n + 2k), which begins with (n + 1)! / x^(n + 2).
    double term = factorial_ * (n + 1) / std::pow(x, n + 2), series = 0;
    for (size_t k = 0; k < kBernoulli.size(); ++k) {
      series += kBernoulli[k] * term;
      const double m = n + 2 * static_cast<double>(k) + 2;
      term *= m * (m + 1) / (x * x);
    }
    if (order_ == 0) return std::log(x) - 0.5 / x - series - shifts;
    const double leading = factorial_ / n / std::pow(x, n) + 0.5 * factorial_ / std::pow(x, n + 1);
    return sign * (leading + series + shifts);
  }

  int order_;
  double factorial_;
  std::vector<double> cot_;  // π^-(order + 1) times the derivative of π cot(πx), by powers of cot(πx)
};

constexpr int64_t kMostOrder = 100;

absl::StatusOr<std::vector<Type>> InferPolygamma(const OpView& view) {
  const int64_t order = view.attrs.Get<int64_t>("order");
  if (order < 0 || order > kMostOrder)
    return InvalidArgument("order={}; it goes from 0 to {}.", order, kMostOrder);
  return InferSame<Elements::kReal>(view);
}

std::vector<Value> PolygammaGrad(const GradView& view) {
  return {Mul(view.result_grads[0], Polygamma(view.operands[0], view.attrs.Get<int64_t>("order") + 1))};
}

Kernel PolygammaCpu(const KernelSpec& spec) {
  const PolygammaFunction function(static_cast<int>(spec.attrs.Get<int64_t>("order")));
  return RealKernel(spec, [function](auto x) { return static_cast<decltype(x)>(function(x)); });
}

// ---- The inverse of erf.

// Giles, "Approximating the erfinv function" (GPU Computing Gems, 2010), listing 5, within some 1e-7.
double NearErfInv(double x) {
  constexpr std::array<double, 9> kCentral = {2.81022636e-08,  3.43273939e-07, -3.5233877e-06,
                                              -4.39150654e-06, 0.00021858087,  -0.00125372503,
                                              -0.00417768164,  0.246640727,    1.50140941};
  constexpr std::array<double, 9> kTail = {-0.000200214257, 0.000100950558, 0.00134934322,
                                           -0.00367342844,  0.00573950773,  -0.0076224613,
                                           0.00943887047,   1.00167406,     2.83297682};
  const double w = -std::log((1 - x) * (1 + x));
  const double at = w < 5 ? w - 2.5 : std::sqrt(w) - 3;
  double p = 0;
  for (double c : w < 5 ? kCentral : kTail) p = p * at + c;
  return p * x;
}

// Two of Halley's steps, each of which triples the digits; where erf is near ±1 by erfc, which is exact
// there.
double ErfInvOf(double x) {
  if (std::fabs(x) == 1) return std::copysign(std::numeric_limits<double>::infinity(), x);
  if (!(std::fabs(x) < 1)) return std::numeric_limits<double>::quiet_NaN();
  double y = NearErfInv(x);
  // Giles' is good as far as floats go; beyond, it takes more steps.
  const int steps = std::fabs(x) > 1 - 1e-9 ? 8 : 2;
  for (int step = 0; step < steps; ++step) {
    const double off = std::fabs(x) < 0.5 ? std::erf(y) - x
                       : x > 0            ? (1 - x) - std::erfc(y)
                                          : std::erfc(-y) - (1 + x);
    const double u = off * std::exp(y * y) / (2 * std::numbers::inv_sqrtpi);
    y -= u / (1 + y * u);
  }
  return y;
}

// ---- Of two reals.

template <typename T>
T LogAddExpOf(T a, T b) {
  if (a == b) return a + static_cast<T>(kLn2);  // of infinities, too
  const T difference = a - b;
  return (difference > 0 ? a : b) + std::log1p(std::exp(-std::fabs(difference)));
}

std::vector<Value> LogAddExpGrad(const GradView& view) {
  const Value &a = view.operands[0], &b = view.operands[1], &g = view.result_grads[0];
  const Value tie = Equal(a, b);
  return Fit(view, {g * Select(tie, 0.5, Sigmoid(a - b)), g * Select(tie, 0.5, Sigmoid(b - a))});
}

// 0 at (0, 0).
std::vector<Value> HypotGrad(const GradView& view) {
  const Value &y = view.results[0], &g = view.result_grads[0];
  const Value by = Select(Equal(y, 0.0), 1.0, y);
  return Fit(view, {g * view.operands[0] / by, g * view.operands[1] / by});
}

Rule GrowingInEachRule(const OpView& view) {
  const DType dtype = view.results[0].dtype;
  return ElementwiseRule(view, Grows(Which::kOne, dtype, dtype));
}

template <typename F>
OpRow RealPair(std::string_view name, std::string_view doc, Rule (*rule)(const OpView&),
               std::vector<Value> (*grad)(const GradView&), F f) {
  return {.name = name,
          .doc = doc,
          .num_operands = 2,
          .infer = InferSame<Elements::kReal>,
          .rule = rule,
          .grad = grad,
          .cpu = ForPairs<Elements::kReal>(f),
          .stack = StackBroadcast,
          .is_light = true,
          .in_place = {0},
          .samples = {"f32[4,6], f32[4,6]", "f64[4,6], f64[6]", "f32[4,1], f32[6]", "bf16[5], bf16[]"}};
}

// ---- Bits.

template <typename F>
OpRow BitCount(std::string_view name, std::string_view doc, F) {
  return {.name = name,
          .doc = doc,
          .infer = InferSame<Elements::kWhole>,
          .rule = OpaqueRule,
          .cpu =
              [](const KernelSpec& spec) {
                return Dispatch(spec.operands[0].local.dtype, [&](auto zero) -> Kernel {
                  using T = decltype(zero);
                  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
                    return UnaryKernel<T, T>(spec, [](T x) {
                      return static_cast<T>(F{}(static_cast<std::make_unsigned_t<T>>(x)));
                    });
                  else return {};
                });
              },
          .stack = StackBroadcast,
          .is_light = true,
          .in_place = {0},
          .samples = {"i32[4,6]", "i64[5]"}};
}

}  // namespace

std::span<const OpRow> SpecialOps() {
  static const auto* rows = new std::vector<OpRow>{
      RealRow(
          "exp2", "2 to the x", [](auto x) { return std::exp2(x); },
          [](const Value& g, const Value&, const Value& y) { return g * y * kLn2; }, {.rule = GrowingRule}),
      RealRow(
          "log2", "logarithm to base 2", [](auto x) { return std::log2(x); },
          [](const Value& g, const Value& x, const Value&) { return g / (x * kLn2); },
          {.rule = GrowingUpwardsRule, .sample_low = 0.25}),
      RealRow(
          "log10", "logarithm to base 10", [](auto x) { return std::log10(x); },
          [](const Value& g, const Value& x, const Value&) { return g / (x * kLn10); },
          {.rule = GrowingUpwardsRule, .sample_low = 0.25}),
      RealRow(
          "lgamma", "log of the size of Γ(x)", [](auto x) { return LogGammaOf(x); },
          [](const Value& g, const Value& x, const Value&) { return g * Polygamma(x, 0); },
          {.sample_low = 0.25, .sample_high = 4}),
      {.name = "polygamma",
       .doc = "the derivative of order + 1 of log Γ; 0, -1, … give ∞ where order is odd, else NaN",
       .attrs = {{"order", AttrKind::kInt, int64_t{0}}},
       .infer = InferPolygamma,
       .rule = OpaqueRule,
       .grad = PolygammaGrad,
       .cpu = PolygammaCpu,
       .stack = StackBroadcast,
       .is_light = true,
       .in_place = {0},
       .samples = {"f32[4,6]", "f64[5]; order=1", "bf16[6]; order=2"},
       .sample_low = 0.25,
       .sample_high = 4},
      RealRow(
          "erfinv", "the number whose erf is x", [](auto x) { return static_cast<decltype(x)>(ErfInvOf(x)); },
          [](const Value& g, const Value&, const Value& y) {
            return g * (0.5 / std::numbers::inv_sqrtpi) * Exp(y * y);
          },
          {.sample_low = -0.9, .sample_high = 0.9}),
      RealPair("logaddexp", "log(exp(a) + exp(b)), for all sizes of a and b", GrowingInEachRule,
               LogAddExpGrad, [](auto a, auto b) { return LogAddExpOf(a, b); }),
      RealPair("hypot", "sqrt(a² + b²), without overflow on the way", OpaqueRule, HypotGrad,
               [](auto a, auto b) { return std::hypot(a, b); }),
      BitCount("popcount", "how many bits of x are set", [](auto x) { return std::popcount(x); }),
      BitCount("count_leading_zeros", "how many bits of x are 0 before the first that is set",
               [](auto x) { return std::countl_zero(x); }),
  };
  return *rows;
}

Value Exp2(const Operand& x) { return AddOp("exp2", {x}); }
Value Log2(const Operand& x) { return AddOp("log2", {x}); }
Value Log10(const Operand& x) { return AddOp("log10", {x}); }
Value LogGamma(const Operand& x) { return AddOp("lgamma", {x}); }
Value Digamma(const Operand& x) { return Polygamma(x, 0); }
Value Polygamma(const Operand& x, int64_t order) { return AddOp("polygamma", {x}, {{"order", order}}); }
Value ErfInv(const Operand& x) { return AddOp("erfinv", {x}); }
Value LogAddExp(const Operand& a, const Operand& b) { return AddOp("logaddexp", {a, b}); }
Value Hypot(const Operand& a, const Operand& b) { return AddOp("hypot", {a, b}); }
Value Popcount(const Operand& x) { return AddOp("popcount", {x}); }
Value CountLeadingZeros(const Operand& x) { return AddOp("count_leading_zeros", {x}); }

}  // namespace meshwork
