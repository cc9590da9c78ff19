// Elementwise rows on all bf16 numbers: each result is the f32 result rounded once, and casts round once.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string_view>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/ops/families.h"
#include "meshwork/ops/ops.h"
#include "ops/elementwise_check.h"
#include "ops/special_numbers.h"
#include "support/sample.h"

namespace meshwork::elementwise_bf16_test {
namespace {

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
              << row.name << " of element " << i << ": " << float{got[i]} << ", not " << want[i];
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
  for (int i = 0; i < 2000; ++i) {  // middles of two, give or take one
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

}  // namespace
}  // namespace meshwork::elementwise_bf16_test
