// The elementwise families' kernels against references in other arithmetic: long double for reals, 128-bit
// integers for whole numbers, over inputs that are hard: ±0, ±∞, NaN, the least and the largest, halves.
#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numbers>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/ops/families.h"
#include "meshwork/ops/ops.h"
#include "support/interpreter.h"
#include "support/sample.h"

namespace meshwork {
namespace {

using ::testing::ElementsAre;
using Real = long double;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

// The row of one result of the operands' elements, as a dtype's C++ type.
template <typename To, typename From>
std::vector<To> ResultOf(std::string_view op, const std::vector<std::vector<From>>& operands,
                         const Attrs& attrs = {}) {
  const OpRow& row = GetOp(op);
  const Shape shape = {static_cast<int64_t>(operands[0].size())};
  std::vector<TensorPart> in, out = {HostTensor({DTypeOf<To>(), shape})};
  for (const std::vector<From>& operand : operands) {
    HostTensor tensor({DTypeOf<From>(), shape});
    std::copy(operand.begin(), operand.end(), tensor.template data<From>());
    in.emplace_back(std::move(tensor));
  }
  RunKernel(row, Graph::CompleteAttrs(row, attrs).value(), in, out);
  const To* data = out[0].local.data<To>();
  return std::vector<To>(data, data + operands[0].size());
}

// ---- Reals.

template <typename T>
std::vector<T> HardReals() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> magnitudes = {0,
                               Limits::denorm_min(),
                               Limits::min() / 4,
                               Limits::min(),
                               Limits::epsilon() / 2,
                               Limits::epsilon(),
                               T(1e-3),
                               T(0.3),
                               T(0.5),
                               std::nextafter(T(0.5), T(0)),
                               std::nextafter(T(1), T(0)),
                               1,
                               std::nextafter(T(1), T(2)),
                               T(1.5),
                               2,
                               T(2.5),
                               3,
                               T(3.5),
                               6,
                               T(6.5),
                               9,
                               T(14),
                               20,
                               T(38),
                               88,
                               89,
                               104,
                               T(300),
                               709,
                               710,
                               745,
                               1000,
                               T(1e7) + T(0.5),
                               T(1) / Limits::epsilon() / 2 - T(0.5),
                               T(1) / Limits::epsilon(),
                               T(1e20),
                               std::sqrt(Limits::max()),
                               Limits::max(),
                               Limits::infinity(),
                               Limits::quiet_NaN()};
  std::mt19937 random(1);
  std::uniform_real_distribution<T> small(0, 1), large(0, 20);
  for (int i = 0; i < 300; ++i) magnitudes.push_back(i % 2 == 0 ? small(random) : large(random));
  std::vector<T> all;
  for (T x : magnitudes) all.insert(all.end(), {x, -x});
  return all;
}

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
  // A factor of x may have lost its last bits to underflow.
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

// By row; a suffix after a blank tells attributes apart.
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
      // Rounding may move pow's base, but no operand of what is discontinuous.
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

// ---- bf16.

std::vector<BFloat16> AllBFloat16s() {
  std::vector<BFloat16> all;
  for (uint32_t bits = 0; bits < 0x10000; ++bits)
    all.push_back(std::bit_cast<BFloat16>(static_cast<uint16_t>(bits)));
  return all;
}

bool SameBits(BFloat16 a, BFloat16 b) {
  return a.bits == b.bits || (std::isnan(static_cast<float>(a)) && std::isnan(static_cast<float>(b)));
}

// Every row of real operands, in bf16: what the row gives in f32, rounded once.
TEST(ElementwiseTest, BFloat16IsTheFloatResultRounded) {
  const std::vector<BFloat16> all = AllBFloat16s();
  std::vector<BFloat16> shuffled = all;
  std::shuffle(shuffled.begin(), shuffled.end(), std::mt19937(2));
  int rows = 0;
  for (const auto& family : {ArithmeticOps(), CompareOps(), UnaryOps(), ActivationOps()}) {
    for (const OpRow& row : family) {
      for (const std::string_view text : row.samples) {
        if (text.find("bf16") != 0) continue;
        const Sample sample = ParseSample(row, text).value();
        std::vector<std::vector<BFloat16>> operands = {all, shuffled};
        operands.resize(sample.operands.size());
        std::vector<std::vector<float>> floats;
        for (const auto& operand : operands) floats.emplace_back(operand.begin(), operand.end());
        ++rows;
        if (sample.results[0].dtype == BOOL) {
          EXPECT_EQ(ResultOf<bool>(row.name, operands, sample.attrs),
                    ResultOf<bool>(row.name, floats, sample.attrs))
              << row.name;
          continue;
        }
        const std::vector<BFloat16> got = ResultOf<BFloat16>(row.name, operands, sample.attrs);
        const std::vector<float> want = ResultOf<float>(row.name, floats, sample.attrs);
        for (size_t i = 0; i < all.size(); ++i)
          ASSERT_TRUE(SameBits(got[i], BFloat16(want[i])))
              << row.name << " of element " << i << ": " << got[i] << ", not " << want[i];
      }
    }
  }
  EXPECT_GT(rows, 60);
}

// The bf16 nearest to x, halves to even, found by distance.
BFloat16 NearestBFloat16(Real x) {
  if (std::isnan(x)) return BFloat16(std::numeric_limits<float>::quiet_NaN());
  const auto sign = static_cast<uint16_t>(std::signbit(x) ? 0x8000 : 0);
  x = std::fabs(x);
  // Magnitudes are ordered as their bits are; ∞ counts as the number after the largest.
  auto value = [](uint32_t bits) {
    return bits == 0x7f80 ? 0x1p128L
                          : Real(static_cast<float>(std::bit_cast<BFloat16>(static_cast<uint16_t>(bits))));
  };
  uint32_t below = 0, above = 0x7f80;
  if (x >= value(above)) return std::bit_cast<BFloat16>(static_cast<uint16_t>(sign | above));
  while (above - below > 1) {
    const uint32_t middle = (below + above) / 2;
    (value(middle) <= x ? below : above) = middle;
  }
  const Real down = x - value(below), up = value(above) - x;
  const uint32_t nearest = down < up || (down == up && below % 2 == 0) ? below : above;
  return std::bit_cast<BFloat16>(static_cast<uint16_t>(sign | nearest));
}

TEST(ElementwiseTest, CastsToBFloat16RoundOnce) {
  std::vector<double> x = HardReals<double>();
  std::mt19937_64 random(3);
  for (int i = 0; i < 2000; ++i) {  // at the middle of two, and so near that f32 does not see the difference
    const auto low = static_cast<double>(
        static_cast<float>(std::bit_cast<BFloat16>(static_cast<uint16_t>(random() % 0x7f7f))));
    const auto high = static_cast<double>(std::nextafter(static_cast<float>(low), INFINITY));
    const double middle = low + std::ldexp(high - low, 15);
    for (const double y :
         {middle, std::nextafter(middle, 0), std::nextafter(middle, kInf), middle * (1 + 1e-10)})
      x.insert(x.end(), {y, -y});
  }
  const std::vector<BFloat16> got = ResultOf<BFloat16, double>("cast", {x}, {{"dtype", BF16}});
  for (size_t i = 0; i < x.size(); ++i)
    ASSERT_TRUE(SameBits(got[i], NearestBFloat16(x[i]))) << fmt::format("{:a}", x[i]);

  std::vector<int64_t> whole = {
      0, 1, -1, 257, 258, 259, std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()};
  for (int i = 0; i < 2000; ++i) {  // middles, give or take one
    const int shift = static_cast<int>(random() % 55);
    const auto middle = static_cast<int64_t>((257 + 2 * (random() % 128))) << shift;
    whole.insert(whole.end(), {middle, middle + 1, middle - 1, -middle, -middle - 1, -middle + 1});
  }
  const std::vector<BFloat16> from64 = ResultOf<BFloat16, int64_t>("cast", {whole}, {{"dtype", BF16}});
  for (size_t i = 0; i < whole.size(); ++i)
    ASSERT_TRUE(SameBits(from64[i], NearestBFloat16(whole[i]))) << whole[i];
  std::vector<int32_t> narrow;
  for (int64_t y : whole)
    if (y == static_cast<int32_t>(y)) narrow.push_back(static_cast<int32_t>(y));
  const std::vector<BFloat16> from32 = ResultOf<BFloat16, int32_t>("cast", {narrow}, {{"dtype", BF16}});
  for (size_t i = 0; i < narrow.size(); ++i)
    ASSERT_TRUE(SameBits(from32[i], NearestBFloat16(narrow[i]))) << narrow[i];
}

TEST(ElementwiseTest, CastsOfBFloat16AreExactOrClamp) {
  const std::vector<BFloat16> all = AllBFloat16s();
  std::vector<float> floats(all.begin(), all.end());
  for (const DType to : {F64, I32, I64, BOOL}) {
    Dispatch(to, [&](auto zero) {
      using T = decltype(zero);
      if constexpr (!std::is_same_v<T, BFloat16>) {
        const std::vector<T> got = ResultOf<T, BFloat16>("cast", {all}, {{"dtype", to}});
        const std::vector<T> want = ResultOf<T, float>("cast", {floats}, {{"dtype", to}});
        for (size_t i = 0; i < all.size(); ++i)
          ASSERT_TRUE(got[i] == want[i] || (got[i] != got[i] && want[i] != want[i])) << floats[i];
      }
    });
  }
}

// ---- Whole numbers and bools.

using Wide = __int128;

template <typename T>
std::vector<T> HardWholes() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> all = {Limits::min(),
                        Limits::min() + 1,
                        Limits::max() - 1,
                        Limits::max(),
                        -65537,
                        -100,
                        -64,
                        -33,
                        -32,
                        -7,
                        -3,
                        -2,
                        -1,
                        0,
                        1,
                        2,
                        3,
                        5,
                        7,
                        31,
                        32,
                        33,
                        62,
                        63,
                        64,
                        65,
                        100,
                        65536,
                        1 << 30};
  return all;
}

// x modulo 2^width, in the range of T.
template <typename T>
T Wrap(Wide x) {
  return static_cast<T>(static_cast<std::make_unsigned_t<T>>(static_cast<unsigned __int128>(x)));
}

Wide FloorDivided(Wide a, Wide b) { return a / b - (a % b < 0 ? 1 : 0); }  // b > 0

template <typename T>
using WholeFunction = std::function<T(Wide, Wide)>;

template <typename T>
std::map<std::string, WholeFunction<T>> WholePairs() {
  constexpr int kWidth = 8 * sizeof(T);
  auto bits = [](Wide a, Wide b, auto f) {  // bit by bit
    Wide result = 0;
    for (int i = 0; i < kWidth; ++i) result += Wide(f((a >> i) % 2 != 0, (b >> i) % 2 != 0)) << i;
    return Wrap<T>(result);
  };
  auto power = [](Wide a, Wide b) -> T {
    if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 == 0 ? 1 : -1) : 0;
    if (b > 200 && a != 0 && a != 1 && a != -1) return a % 2 == 0 ? 0 : static_cast<T>(-99);  // not looked at
    Wide result = 1;
    for (Wide i = 0; i < (b > 200 ? 200 + b % 2 : b); ++i) result = Wrap<T>(result * a);
    return static_cast<T>(result);
  };
  return {
      {"add", [](Wide a, Wide b) { return Wrap<T>(a + b); }},
      {"sub", [](Wide a, Wide b) { return Wrap<T>(a - b); }},
      {"mul", [](Wide a, Wide b) { return Wrap<T>(a * b); }},
      {"div", [](Wide a, Wide b) { return b == 0 ? T(0) : Wrap<T>(a / b); }},
      {"remainder", [](Wide a, Wide b) { return b == 0 ? Wrap<T>(a) : Wrap<T>(a % b); }},
      {"pow", power},
      {"maximum", [](Wide a, Wide b) { return Wrap<T>(a < b ? b : a); }},
      {"minimum", [](Wide a, Wide b) { return Wrap<T>(a < b ? a : b); }},
      {"squared_difference", [](Wide a, Wide b) { return Wrap<T>(Wide(Wrap<T>(a - b)) * Wrap<T>(a - b)); }},
      {"and", [=](Wide a, Wide b) { return bits(a, b, [](bool x, bool y) { return x && y; }); }},
      {"or", [=](Wide a, Wide b) { return bits(a, b, [](bool x, bool y) { return x || y; }); }},
      {"xor", [=](Wide a, Wide b) { return bits(a, b, [](bool x, bool y) { return x != y; }); }},
      {"shift_left",
       [](Wide a, Wide b) { return b < 0 || b >= kWidth ? T(0) : Wrap<T>(a * (Wide(1) << b)); }},
      {"shift_right_arithmetic",
       [](Wide a, Wide b) {
         return Wrap<T>(FloorDivided(a, Wide(1) << (b < 0 || b >= kWidth ? kWidth : b)));
       }},
      {"shift_right_logical",
       [](Wide a, Wide b) {
         const Wide without_sign = a < 0 ? a + (Wide(1) << kWidth) : a;
         return b < 0 || b >= kWidth ? T(0) : Wrap<T>(without_sign / (Wide(1) << b));
       }},
  };
}

template <typename T>
void ExpectWholesAreRight() {
  std::vector<T> a, b;
  for (T x : HardWholes<T>())
    for (T y : HardWholes<T>()) a.push_back(x), b.push_back(y);
  for (const auto& [op, f] : WholePairs<T>()) {
    const std::vector<T> got = ResultOf<T, T>(op, {a, b});
    for (size_t i = 0; i < a.size(); ++i) {
      if (op == "pow" && b[i] > 200 && a[i] % 2 != 0 && a[i] != 1 && a[i] != -1) continue;
      EXPECT_EQ(got[i], f(a[i], b[i])) << op << " of " << a[i] << " and " << b[i];
    }
  }
  const std::map<std::string, std::function<bool(T, T)>> comparisons = {
      {"equal", std::equal_to<T>()},  {"not_equal", std::not_equal_to<T>()},
      {"less", std::less<T>()},       {"less_equal", std::less_equal<T>()},
      {"greater", std::greater<T>()}, {"greater_equal", std::greater_equal<T>()}};
  for (const auto& [op, f] : comparisons) {
    const std::vector<bool> got = ResultOf<bool, T>(op, {a, b});
    for (size_t i = 0; i < a.size(); ++i)
      EXPECT_EQ(got[i], f(a[i], b[i])) << op << " of " << a[i] << " and " << b[i];
  }
  const std::map<std::string, std::function<T(Wide)>> functions = {
      {"neg", [](Wide x) { return Wrap<T>(-x); }},
      {"abs", [](Wide x) { return Wrap<T>(x < 0 ? -x : x); }},
      {"sign", [](Wide x) { return x < 0   ? T(-1)
                                   : x > 0 ? T(1)
                                           : T(0); }},
      {"square", [](Wide x) { return Wrap<T>(x * x); }},
      {"not", [](Wide x) { return Wrap<T>(-x - 1); }},
      {"clip", [](Wide x) { return Wrap<T>(x < -3   ? -3
                                           : x > 32 ? 32
                                                    : x); }},
  };
  const Attrs bounds = {{"low", -3.0}, {"high", 32.0}};
  for (const auto& [op, f] : functions) {
    const std::vector<T> got = ResultOf<T, T>(op, {a}, op == "clip" ? bounds : Attrs());
    for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(got[i], f(a[i])) << op << " of " << a[i];
  }
  EXPECT_EQ((ResultOf<T, T>("clip", {a}, {{"low", -kInf}, {"high", 1e300}})), a);
}

TEST(ElementwiseTest, WholeNumbersAreThoseOfWideArithmeticWrapped) {
  ExpectWholesAreRight<int32_t>();
  ExpectWholesAreRight<int64_t>();
}

// 3^b for a b that only squaring reaches: 3^(2^30) = 1 modulo 2^32, for the order of 3 divides 2^30.
TEST(ElementwiseTest, WholePowersOfLargeExponentsTakeFewSteps) {
  EXPECT_THAT((ResultOf<int32_t, int32_t>(
                  "pow", {{3, 3, 7}, {1 << 30, (1 << 30) + 1, std::numeric_limits<int32_t>::max()}})),
              ElementsAre(1, 3, -1227133513));  // 7^-1 modulo 2^32, since 7^(2^31) = 1
}

TEST(ElementwiseTest, BoolsFollowTheirTables) {
  const std::vector<bool> a = {false, false, true, true}, b = {false, true, false, true};
  const std::map<std::string, std::vector<bool>> tables = {
      {"and", {false, false, false, true}},         {"or", {false, true, true, true}},
      {"xor", {false, true, true, false}},          {"equal", {true, false, false, true}},
      {"not_equal", {false, true, true, false}},    {"less", {false, true, false, false}},
      {"less_equal", {true, true, false, true}},    {"greater", {false, false, true, false}},
      {"greater_equal", {true, false, true, true}},
  };
  for (const auto& [op, table] : tables) EXPECT_EQ((ResultOf<bool, bool>(op, {a, b})), table) << op;
  EXPECT_EQ((ResultOf<bool, bool>("not", {b})), (std::vector<bool>{true, false, true, false}));
  EXPECT_EQ((ResultOf<bool, bool>("select", {a, b, {true, true, true, true}})),
            (std::vector<bool>{true, true, false, true}));
}

// Padding is read as bools, whatever byte it holds.
TEST(ElementwiseTest, AnyByteButZeroIsTrue) {
  HostTensor x({BOOL, {3}});
  x.data<uint8_t>()[0] = 0, x.data<uint8_t>()[1] = 2, x.data<uint8_t>()[2] = 255;
  std::vector<TensorPart> out = {HostTensor({BOOL, {3}})};
  RunKernel(GetOp("not"), {}, {x}, out);
  EXPECT_THAT(std::vector<uint8_t>(out[0].local.data<uint8_t>(), out[0].local.data<uint8_t>() + 3),
              ElementsAre(1, 0, 0));
  RunKernel(GetOp("and"), {}, {x, x}, out);
  EXPECT_THAT(std::vector<uint8_t>(out[0].local.data<uint8_t>(), out[0].local.data<uint8_t>() + 3),
              ElementsAre(0, 1, 1));
}

// ---- The builder functions call the rows they name.

TEST(ElementwiseTest, OperatorsAreTheFunctionsTheyLookLike) {
  Graph g{Mesh()};
  const Value a = g.Input("a", I32, {1}, {UNSHARDED}), b = g.Input("b", I32, {1}, {UNSHARDED});
  const Value all[] = {a % b,
                       a & b,
                       a | b,
                       a ^ b,
                       ~a,
                       ShiftLeft(a, b),
                       ShiftRightArithmetic(-a, b),
                       ShiftRightLogical(-a, b),
                       Pow(a, b)};
  for (size_t i = 0; i < std::size(all); ++i) g.Output("y" + std::to_string(i), all[i]);
  const auto outputs = Interpret(g, {{"a", {13}}, {"b", {3}}}).outputs;
  std::vector<double> numbers;
  for (size_t i = 0; i < std::size(all); ++i)
    numbers.push_back(outputs.at("y" + std::to_string(i)).Numbers()[0]);
  EXPECT_THAT(numbers, ElementsAre(1, 1, 15, 14, -14, 104, -2, 536870910, 2197));
}

TEST(ElementwiseTest, FunctionsOfOneOperandAddTheRowOfTheirName) {
  const std::map<std::string, Value (*)(const Operand&)> functions = {{"neg", Neg},
                                                                      {"abs", Abs},
                                                                      {"sign", Sign},
                                                                      {"square", Square},
                                                                      {"reciprocal", Reciprocal},
                                                                      {"is_finite", IsFinite},
                                                                      {"is_inf", IsInf},
                                                                      {"is_nan", IsNan},
                                                                      {"exp", Exp},
                                                                      {"expm1", Expm1},
                                                                      {"log", Log},
                                                                      {"log1p", Log1p},
                                                                      {"sqrt", Sqrt},
                                                                      {"rsqrt", Rsqrt},
                                                                      {"cbrt", Cbrt},
                                                                      {"erf", Erf},
                                                                      {"erfc", Erfc},
                                                                      {"sin", Sin},
                                                                      {"cos", Cos},
                                                                      {"tan", Tan},
                                                                      {"asin", Asin},
                                                                      {"acos", Acos},
                                                                      {"atan", Atan},
                                                                      {"sinh", Sinh},
                                                                      {"cosh", Cosh},
                                                                      {"tanh", Tanh},
                                                                      {"asinh", Asinh},
                                                                      {"acosh", Acosh},
                                                                      {"atanh", Atanh},
                                                                      {"floor", Floor},
                                                                      {"ceil", Ceil},
                                                                      {"round", Round},
                                                                      {"trunc", Trunc},
                                                                      {"relu", Relu},
                                                                      {"relu6", Relu6},
                                                                      {"selu", Selu},
                                                                      {"mish", Mish},
                                                                      {"hard_silu", HardSilu},
                                                                      {"silu", Silu}};
  for (const auto& [name, f] : functions) {
    Graph g{Mesh()};
    f(g.Input("x", F32, {2}, {UNSHARDED}));
    ASSERT_TRUE(g.status().ok()) << g.status();
    EXPECT_EQ(g.nodes().back().row->name, name);
  }
}

}  // namespace
}  // namespace meshwork
