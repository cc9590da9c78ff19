// Elementwise functions of reals against references in long double, on difficult reals.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numbers>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/ops/families.h"
#include "meshwork/ops/ops.h"
#include "ops/elementwise_check.h"
#include "ops/special_numbers.h"

namespace meshwork::elementwise_reals_test {
namespace {

// Neighbours of a number, towards ±∞, at `steps` times its spacing.
template <typename T>
T Spacing(T x) {
  return std::max(std::nextafter(std::fabs(x), std::numeric_limits<T>::infinity()) - std::fabs(x),
                  std::numeric_limits<T>::denorm_min());
}

// Whether `got` is what `f` gives near x, up to a few roundings of the operand and the result.
template <typename T>
bool IsRight(const std::function<Real(Real)>& f, T x, T got) {
  const Real exact = f(x);
  const T nearest = static_cast<T>(exact);
  if (std::isnan(nearest) || std::isnan(got)) return std::isnan(nearest) && std::isnan(got);
  if (nearest == got) return std::signbit(nearest) == std::signbit(got);
  constexpr Real kRoundings = 4;
  Real slack = 0;
  if (std::isfinite(x)) {
    for (const Real moved : {Real(x) + kRoundings * Spacing(x), Real(x) - kRoundings * Spacing(x)})
      if (std::isfinite(f(moved))) slack = std::max(slack, std::fabs(f(moved) - exact));
  }
  // Underflow may have cost a factor of x its last bits.
  if (std::fabs(exact) < std::numeric_limits<T>::min())
    slack += std::fabs(Real(x)) * std::numeric_limits<T>::denorm_min();
  if (std::isinf(nearest) || std::isinf(got)) {  // on the edge of overflow
    const T finite = std::isinf(nearest) ? got : nearest;
    return std::fabs(finite) > std::numeric_limits<T>::max() / 2 &&
           std::signbit(nearest) == std::signbit(got) &&
           std::fabs(exact) < 2 * Real(std::numeric_limits<T>::max());
  }
  return std::fabs(Real(got) - exact) <= slack + kRoundings * Spacing(nearest);
}

Real Sigmoid(Real x) { return 1 / (1 + std::exp(-x)); }
Real Softplus(Real x) { return x > 100 ? x : std::log1p(std::exp(x)); }
// x gate(x), whose limit at -∞ is 0 from below.
Real Gated(Real x, Real gate) { return std::isinf(x) && x < 0 ? -0.0L : x * gate; }
Real Elu(Real x, Real alpha) { return x > 0 ? x : alpha * std::expm1(x); }
Real HardSigmoid(Real x) { return std::isnan(x) ? x : std::fmin(std::fmax(x + 3, 0), 6) / 6; }
Real ToEven(Real x) {
  const Real below = std::floor(x), up = x - below;
  if (up != 0.5L) return std::copysign(up < 0.5L ? below : below + 1, x);
  return std::copysign(std::fmod(below, 2) == 0 ? below : below + 1, x);
}

struct RealCase {
  std::function<Real(Real)> f;
  Attrs attrs = {};
};

// By row; a suffix after a blank names other attributes.
std::map<std::string, RealCase> RealCases() {
  const Real kAlpha = 1.6732632423543772848L, kScale = 1.0507009873554804934L, kPi = std::numbers::pi_v<Real>;
  return {
      {"neg", {[](Real x) { return -x; }}},
      {"abs", {[](Real x) { return std::fabs(x); }}},
      {"sign", {[](Real x) { return x > 0   ? 1
                                    : x < 0 ? -1
                                            : x; }}},
      {"square", {[](Real x) { return x * x; }}},
      {"reciprocal", {[](Real x) { return 1 / x; }}},
      {"clip", {[](Real x) { return x < -0.5L ? -0.5L
                                    : x > 6   ? 6
                                              : x; }, {{"low", -0.5}, {"high", 6.0}}}},
      {"exp", {[](Real x) { return std::exp(x); }}},
      {"expm1", {[](Real x) { return std::expm1(x); }}},
      {"log", {[](Real x) { return std::log(x); }}},
      {"log1p", {[](Real x) { return std::log1p(x); }}},
      {"sqrt", {[](Real x) { return std::sqrt(x); }}},
      {"rsqrt", {[](Real x) { return 1 / std::sqrt(x); }}},
      {"cbrt", {[](Real x) { return std::cbrt(x); }}},
      {"erf", {[](Real x) { return std::erf(x); }}},
      {"erfc", {[](Real x) { return std::erfc(x); }}},
      {"sin", {[](Real x) { return std::sin(x); }}},
      {"cos", {[](Real x) { return std::cos(x); }}},
      {"tan", {[](Real x) { return std::tan(x); }}},
      {"asin", {[](Real x) { return std::asin(x); }}},
      {"acos", {[](Real x) { return std::acos(x); }}},
      {"atan", {[](Real x) { return std::atan(x); }}},
      {"sinh", {[](Real x) { return std::sinh(x); }}},
      {"cosh", {[](Real x) { return std::cosh(x); }}},
      {"tanh", {[](Real x) { return std::tanh(x); }}},
      {"asinh", {[](Real x) { return std::asinh(x); }}},
      {"acosh", {[](Real x) { return std::acosh(x); }}},
      {"atanh", {[](Real x) { return std::atanh(x); }}},
      {"floor", {[](Real x) { return std::floor(x); }}},
      {"ceil", {[](Real x) { return std::ceil(x); }}},
      {"round", {ToEven}},
      {"trunc", {[](Real x) { return std::trunc(x); }}},
      {"relu", {[](Real x) { return x < 0 ? 0 : x; }}},
      {"relu6", {[](Real x) { return x < 0   ? 0
                                     : x > 6 ? 6
                                             : x; }}},
      {"leaky_relu", {[](Real x) { return x > 0 ? x : 0.25L * x; }, {{"alpha", 0.25}}}},
      {"leaky_relu of 0", {[](Real x) { return x < 0 ? 0 : x; }, {{"alpha", 0.0}}}},
      {"elu", {[](Real x) { return Elu(x, 1); }}},
      {"elu scaled", {[](Real x) { return Elu(x, 0.5L); }, {{"alpha", 0.5}}}},
      {"selu", {[=](Real x) { return kScale * Elu(x, kAlpha); }}},
      {"sigmoid", {Sigmoid}},
      {"softplus", {Softplus}},
      {"silu", {[](Real x) { return Gated(x, Sigmoid(x)); }}},
      {"gelu", {[](Real x) { return Gated(x, std::erfc(-x / std::sqrt(2.0L)) / 2); }}},
      {"gelu by tanh",
       {[=](Real x) { return Gated(x, Sigmoid(2 * std::sqrt(2 / kPi) * (x + 0.044715L * x * x * x))); },
        {{"tanh", true}}}},
      {"mish", {[](Real x) { return Gated(x, std::tanh(Softplus(x))); }}},
      {"hard_sigmoid", {HardSigmoid}},
      {"hard_silu", {[](Real x) { return Gated(x, HardSigmoid(x)); }}},
      {"stop_gradient", {[](Real x) { return x; }}},
  };
}

std::string RowOf(const std::string& name) { return name.substr(0, name.find(' ')); }

template <typename T>
void ExpectRealsAreRight() {
  const std::vector<T> x = HardReals<T>();
  for (const auto& [name, c] : RealCases()) {
    const std::vector<T> got = ResultOf<T, T>(RowOf(name), {x}, c.attrs);
    for (size_t i = 0; i < x.size(); ++i)
      EXPECT_TRUE(IsRight<T>(c.f, x[i], got[i]))
          << fmt::format("{} of {} is {}, not {}", name, x[i], got[i], static_cast<T>(c.f(x[i])));
  }
}

TEST(ElementwiseTest, FunctionsOfOneRealAgreeWithLongDouble) {
  ExpectRealsAreRight<float>();
  ExpectRealsAreRight<double>();
}

// Every row of one real operand and result is in the table.
TEST(ElementwiseTest, EveryFunctionOfOneRealIsTried) {
  std::set<std::string> tried;
  for (const auto& [name, c] : RealCases()) tried.insert(RowOf(name));
  for (const auto& family : {ArithmeticOps(), UnaryOps(), ActivationOps()})
    for (const OpRow& row : family)
      EXPECT_TRUE(row.num_operands > 1 || tried.contains(std::string(row.name))) << row.name;
}

template <typename T>
void ExpectPairsAreRight() {
  const std::map<std::string, std::function<Real(Real, Real)>> functions = {
      {"add", [](Real a, Real b) { return a + b; }},
      {"sub", [](Real a, Real b) { return a - b; }},
      {"mul", [](Real a, Real b) { return a * b; }},
      {"div", [](Real a, Real b) { return a / b; }},
      {"remainder", [](Real a, Real b) { return std::fmod(a, b); }},
      {"pow", [](Real a, Real b) { return std::pow(a, b); }},
      {"maximum",
       [](Real a, Real b) { return std::isnan(a) || a > b || (a == b && !std::signbit(a)) ? a : b; }},
      {"minimum",
       [](Real a, Real b) { return std::isnan(a) || a < b || (a == b && std::signbit(a)) ? a : b; }},
      {"atan2", [](Real a, Real b) { return std::atan2(a, b); }},
      {"squared_difference",
       [](Real a, Real b) { return static_cast<T>(a - b) * Real(static_cast<T>(a - b)); }},
  };
  std::vector<T> hard = HardReals<T>(), a, b;
  hard.resize(100);
  for (T x : hard)
    for (T y : hard) a.push_back(x), b.push_back(y);
  for (const auto& [op, f] : functions) {
    const std::vector<T> got = ResultOf<T, T>(op, {a, b});
    for (size_t i = 0; i < a.size(); ++i) {
      const auto of_a = [&, y = b[i], &g = f](Real x) { return g(x, y); };
      // Rounding may have moved pow's base, but not an operand of a discontinuous function.
      const T nearest = static_cast<T>(f(a[i], b[i]));
      const bool right =
          op == "pow" ? IsRight<T>(of_a, a[i], got[i])
                      : (std::isnan(nearest) ? std::isnan(got[i])
                                             : std::fabs(Real(got[i]) - nearest) <= 2 * Spacing(nearest) ||
                                                   got[i] == nearest);
      EXPECT_TRUE(right) << fmt::format("{} of {} and {} is {}, not {}", op, a[i], b[i], got[i], nearest);
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(ElementwiseTest, FunctionsOfTwoRealsAgreeWithLongDouble) {
  ExpectPairsAreRight<float>();
  ExpectPairsAreRight<double>();
}

TEST(ElementwiseTest, RealsAreTested) {
  const std::vector<double> x = {0, -1, kInf, -kInf, kNaN, 1e308, 5e-324};
  EXPECT_EQ((ResultOf<bool, double>("is_finite", {x})),
            (std::vector<bool>{true, true, false, false, false, true, true}));
  EXPECT_EQ((ResultOf<bool, double>("is_inf", {x})),
            (std::vector<bool>{false, false, true, true, false, false, false}));
  EXPECT_EQ((ResultOf<bool, double>("is_nan", {x})),
            (std::vector<bool>{false, false, false, false, true, false, false}));
}

}  // namespace
}  // namespace meshwork::elementwise_reals_test
