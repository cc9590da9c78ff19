// Elementwise rows of whole numbers against 128-bit integers, at the edges of each dtype, and of bools
// against their tables.
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/ops/ops.h"
#include "ops/elementwise_check.h"
#include "ops/special_numbers.h"
#include "support/interpreter.h"

namespace meshwork::elementwise_wholes_test {
namespace {

using ::testing::ElementsAre;

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

// 3^b for an exponent that takes squaring: 3^(2^30) = 1 modulo 2^32, since the order of 3 divides 2^30.
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

// Padding is read as bools, and may hold any byte.
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

}  // namespace
}  // namespace meshwork::elementwise_wholes_test
