#include "meshwork/base/float16.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "support/half.h"

namespace meshwork::float16_test {
namespace {

TEST(Float16Test, EveryPatternIsTheNumberOfItsFormula) {
  for (int bits = 0; bits < 65536; ++bits) {
    const float x = Float16::FromBits(static_cast<uint16_t>(bits));
    const double expected = ValueOfHalf(bits);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(x)) << bits;
      EXPECT_TRUE(std::isnan(static_cast<float>(Float16(x)))) << bits;
      EXPECT_EQ(Float16(x).bits & 0xfe00, (bits & 0xfe00) | 0x7e00) << bits;  // quiet, with its sign
      continue;
    }
    EXPECT_EQ(x, expected) << bits;
    EXPECT_EQ(std::signbit(x), std::signbit(expected)) << bits;
    EXPECT_EQ(Float16(x).bits, bits);
  }
}

// The bits of the nearest half, on a tie those of the even one: searched for among all non-negative halves.
int NearestByDistance(double x) {
  static const auto* const values = [] {
    auto* all = new std::vector<double>;
    for (int bits = 0; bits < 0x7c00; ++bits) all->push_back(ValueOfHalf(bits));
    all->push_back(65536);  // the next number, if there were one; it stands for infinity
    return all;
  }();
  if (x >= 65536) return 0x7c00;
  int low = 0, high = 0x7c00;  // values[low] <= x < values[high]
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    ((*values)[static_cast<size_t>(middle)] <= x ? low : high) = middle;
  }
  const double below = x - (*values)[static_cast<size_t>(low)],
               above = (*values)[static_cast<size_t>(high)] - x;
  if (below != above) return below < above ? low : high;
  return low % 2 == 0 ? low : high;
}

void ExpectNearest(float x) {
  ASSERT_EQ(Float16(x).bits, NearestByDistance(x)) << x;
  ASSERT_EQ(Float16(-x).bits, NearestByDistance(x) | 0x8000) << x;
}

TEST(Float16Test, RoundsToTheNearestAndTiesToEven) {
  for (int bits = 0; bits < 0x7c00; ++bits) {
    const double next = bits + 1 < 0x7c00 ? ValueOfHalf(bits + 1) : 65536;
    const auto tie = static_cast<float>((ValueOfHalf(bits) + next) / 2);  // the mean is exact in f32
    ExpectNearest(tie);
    ExpectNearest(std::nextafter(tie, 0.0f));
    ExpectNearest(std::nextafter(tie, INFINITY));
  }
}

TEST(Float16Test, RoundsNumbersOfEverySize) {
  std::mt19937 random(1);
  for (int i = 0; i < 1'000'000; ++i) {
    const auto x = std::bit_cast<float>(static_cast<uint32_t>(random() & 0x7fffffff));
    if (!std::isnan(x)) ExpectNearest(x);
  }
  ExpectNearest(0);
  ExpectNearest(std::numeric_limits<float>::denorm_min());
  ExpectNearest(std::numeric_limits<float>::max());
  ExpectNearest(INFINITY);
}

}  // namespace
}  // namespace meshwork::float16_test
