#include "meshwork/ops/kernels/philox.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/ops/kernels/portable/philox.h"

namespace meshwork::philox_test {
namespace {

constexpr uint64_t kTestSeed = 20111112, kTestStream = 3;
constexpr size_t kMany = 100'000;

template <typename T>
T Uniform(uint64_t seed, uint64_t stream, uint64_t index) {
  return portable::UniformOf(portable::PhiloxAt(seed, stream, index), T{});
}
template <typename T>
T Normal(uint64_t seed, uint64_t stream, uint64_t index) {
  return static_cast<T>(portable::NormalOf(portable::PhiloxAt(seed, stream, index)));
}

using Words = std::array<unsigned, 4>;
Words WordsOf(const portable::Philox& block) { return std::to_array(block.word); }
// 10 rounds.
Words Philox4x32(const Words& c, std::array<unsigned, 2> key) {
  return WordsOf(portable::PhiloxRounds({{c[0], c[1], c[2], c[3]}}, key[0], key[1]));
}

template <typename T>
std::vector<T> Uniforms(size_t n, T low = 0, T high = 1) {
  std::vector<T> values(n);
  FillUniform(kTestSeed, kTestStream, 0, low, high, std::span<T>(values));
  return values;
}
template <typename T>
std::vector<T> Normals(size_t n, T mean = 0, T stddev = 1) {
  std::vector<T> values(n);
  FillNormal(kTestSeed, kTestStream, 0, mean, stddev, std::span<T>(values));
  return values;
}

// FNV-1a over the bytes of the values, least significant first.
template <typename T>
uint64_t HashOf(const std::vector<T>& values) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  uint64_t hash = 0xcbf29ce484222325;
  for (const T value : values) {
    const Bits bits = std::bit_cast<Bits>(value);
    for (size_t byte = 0; byte < sizeof(T); ++byte) hash = (hash ^ (bits >> 8 * byte & 0xff)) * 0x100000001b3;
  }
  return hash;
}

// |value - truth| in units of the last place of a double near truth.
double ErrorInUlps(double value, long double truth) {
  const double near = std::fabs(static_cast<double>(truth));
  const double ulp = std::nextafter(near, std::numeric_limits<double>::infinity()) - near;
  return std::fabs(static_cast<double>(value - truth)) / ulp;
}

// The largest distance between the values' distribution and `cdf` (Kolmogorov and Smirnov).
template <typename T, typename Cdf>
double DistanceFrom(std::vector<T> values, Cdf cdf) {
  std::sort(values.begin(), values.end());
  const double n = static_cast<double>(values.size());
  double distance = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double p = cdf(static_cast<double>(values[i]));
    distance = std::max({distance, p - static_cast<double>(i) / n, static_cast<double>(i + 1) / n - p});
  }
  return distance;
}

struct Moments {
  double mean = 0, variance = 0;
};
template <typename T>
Moments MomentsOf(const std::vector<T>& values) {
  Moments m;
  for (const T v : values) m.mean += v / static_cast<double>(values.size());
  for (const T v : values) m.variance += (v - m.mean) * (v - m.mean) / static_cast<double>(values.size());
  return m;
}

// Known answers, from the kat_vectors file of Random123.
TEST(PhiloxTest, MatchesKnownAnswers) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(Philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(PhiloxTest, KeysBySeedAndCountsByIndexAndStream) {
  EXPECT_EQ(WordsOf(portable::PhiloxAt(0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88)),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(PhiloxTest, UniformsAreTheFirstBitsOfTheBlock) {
  // Block 6627e8d5 e169c58d …: its first 24 and 53 bits.
  EXPECT_EQ(Uniform<float>(0, 0, 0), static_cast<float>(0x6627e8) / (1 << 24));
  EXPECT_EQ(Uniform<double>(0, 0, 0), std::ldexp(static_cast<double>(0x6627e8d5e169c58d >> 11), -53));
  for (uint64_t i = 0; i < kMany; ++i) {
    const double difference =
        Uniform<double>(kTestSeed, kTestStream, i) - Uniform<float>(kTestSeed, kTestStream, i);
    ASSERT_GE(difference, 0) << i;
    ASSERT_LT(difference, 0x1p-24) << i;
  }
}

TEST(PhiloxTest, SeedsStreamsAndIndicesDiffer) {
  const double value = Uniform<double>(1, 1, 1);
  EXPECT_NE(Uniform<double>(2, 1, 1), value);
  EXPECT_NE(Uniform<double>(1, 2, 1), value);
  EXPECT_NE(Uniform<double>(1, 1, 2), value);
  EXPECT_NE(Uniform<double>(uint64_t{1} << 32 | 1, 1, 1), value);
  EXPECT_NE(Uniform<double>(1, uint64_t{1} << 32 | 1, 1), value);
  EXPECT_NE(Uniform<double>(1, 1, uint64_t{1} << 32 | 1), value);
}

template <typename T>
class PhiloxFillTest : public testing::Test {};
using Floats = testing::Types<float, double>;
TYPED_TEST_SUITE(PhiloxFillTest, Floats);

TYPED_TEST(PhiloxFillTest, RunsEqualSingles) {
  using T = TypeParam;
  // Runs across the carry from the first counter word to the second, and of length 0.
  for (const uint64_t first : {uint64_t{0}, uint64_t{12345}, (uint64_t{1} << 32) - 5}) {
    for (const size_t n : {0, 1, 7, 100}) {
      std::vector<T> uniform(n), normal(n);
      FillUniform(kTestSeed, kTestStream, first, T{0}, T{1}, std::span<T>(uniform));
      FillNormal(kTestSeed, kTestStream, first, T{0}, T{1}, std::span<T>(normal));
      for (size_t j = 0; j < n; ++j) {
        ASSERT_EQ(uniform[j], Uniform<T>(kTestSeed, kTestStream, first + j)) << first << " + " << j;
        ASSERT_EQ(normal[j], Normal<T>(kTestSeed, kTestStream, first + j)) << first << " + " << j;
      }
    }
  }
}

TYPED_TEST(PhiloxFillTest, ScalesAndShifts) {
  using T = TypeParam;
  const auto uniform = Uniforms<T>(1000, T{-3}, T{5});
  const auto normal = Normals<T>(1000, T{10}, T{0.25});
  for (size_t j = 0; j < 1000; ++j) {
    ASSERT_EQ(uniform[j], T{-3} + Uniform<T>(kTestSeed, kTestStream, j) * T{8});
    ASSERT_EQ(normal[j], T{10} + T{0.25} * Normal<T>(kTestSeed, kTestStream, j));
  }
}

TYPED_TEST(PhiloxFillTest, UniformStaysBelowHigh) {
  using T = TypeParam;
  // Between two neighbours half of the values would round up to the upper one.
  const T low = 1, high = std::nextafter(low, T{2});
  EXPECT_THAT(Uniforms<T>(100, low, high), testing::Each(low));
  EXPECT_THAT(Uniforms<T>(100, low, low), testing::Each(low));
  for (const T v : Uniforms<T>(kMany, T{1e6}, T{1e6} + 1)) {
    ASSERT_GE(v, T{1e6});
    ASSERT_LT(v, T{1e6} + 1);
  }
}

// Five standard errors: a correct generator fails by chance once in 1.7 million seeds.
TYPED_TEST(PhiloxFillTest, UniformHasItsMoments) {
  const Moments m = MomentsOf(Uniforms<TypeParam>(kMany));
  EXPECT_NEAR(m.mean, 0.5, 5 * std::sqrt(1. / 12 / kMany));
  EXPECT_NEAR(m.variance, 1. / 12, 5 * std::sqrt(1. / 180 / kMany));
}

TYPED_TEST(PhiloxFillTest, NormalHasItsMoments) {
  const Moments m = MomentsOf(Normals<TypeParam>(kMany));
  EXPECT_NEAR(m.mean, 0, 5 * std::sqrt(1. / kMany));
  EXPECT_NEAR(m.variance, 1, 5 * std::sqrt(2. / kMany));
}

// Kolmogorov's distribution: P(sqrt(n) D > 2.2) = 1.3e-4.
TYPED_TEST(PhiloxFillTest, ValuesFollowTheirDistribution) {
  const double bound = 2.2 / std::sqrt(static_cast<double>(kMany));
  EXPECT_LT(DistanceFrom(Uniforms<TypeParam>(kMany), [](double x) { return x; }), bound);
  EXPECT_LT(
      DistanceFrom(Normals<TypeParam>(kMany), [](double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }),
      bound);
}

// Neighbours in index, stream and seed are uncorrelated.
TEST(PhiloxTest, NeighboursAreUncorrelated) {
  const double bound = 5 * std::sqrt(1. / kMany);
  double by_index = 0, by_stream = 0, by_seed = 0;
  for (uint64_t i = 0; i < kMany; ++i) {
    const double z = Normal<double>(kTestSeed, kTestStream, i) / kMany;
    by_index += z * Normal<double>(kTestSeed, kTestStream, i + 1);
    by_stream += z * Normal<double>(kTestSeed, kTestStream + 1, i);
    by_seed += z * Normal<double>(kTestSeed + 1, kTestStream, i);
  }
  EXPECT_NEAR(by_index, 0, bound);
  EXPECT_NEAR(by_stream, 0, bound);
  EXPECT_NEAR(by_seed, 0, bound);
}

TEST(PhiloxTest, NormalF32IsTheRoundedF64) {
  for (uint64_t i = 0; i < kMany; ++i)
    ASSERT_EQ(Normal<float>(kTestSeed, kTestStream, i),
              static_cast<float>(Normal<double>(kTestSeed, kTestStream, i)))
        << i;
}

// If this fails and the tests above do not, this CPU or compiler computes other bits.
TEST(PhiloxTest, FirstValuesAreTheSameOnEveryCpu) {
  EXPECT_EQ(HashOf(Uniforms<float>(kMany)), 0xce1e7506888249b0);
  EXPECT_EQ(HashOf(Uniforms<double>(kMany)), 0x231be780ccd283cb);
  EXPECT_EQ(HashOf(Normals<float>(kMany)), 0xd0f1ddad522bb979);
  EXPECT_EQ(HashOf(Normals<double>(kMany)), 0xbbee73dbfa32227e);
  EXPECT_EQ(HashOf(Uniforms<float>(kMany, -0.1f, 0.3f)), 0x3043a4a980fe8d98);
  EXPECT_EQ(HashOf(Normals<double>(kMany, 0.1, 0.3)), 0xb4e0e849fd76ccc2);
}

TEST(PortableMathTest, LogIsWithinOneAndAHalfUlps) {
  double worst = 0;
  for (int64_t i = 1; i <= 1'000'000; ++i) {
    const double dense = static_cast<double>(i) * 1e-6;                     // all over (0, 1]
    const double small = std::ldexp(1 + dense, -static_cast<int>(i % 53));  // every exponent u can have
    const double near_one = 1 - std::ldexp(dense, -static_cast<int>(i % 52));
    for (const double x : {dense, small, near_one, 1 / dense}) {
      if (x <= 0 || x == 1) continue;
      worst = std::max(worst, ErrorInUlps(portable::PortableLog(x), std::log(static_cast<long double>(x))));
    }
  }
  EXPECT_LE(worst, 1.5);
  EXPECT_EQ(portable::PortableLog(1), 0);
}

TEST(PortableMathTest, LogOfUnitIsNeverPositive) {
  EXPECT_EQ(portable::PortableLog(std::nextafter(1.0, 0.0)), std::log(std::nextafter(1.0, 0.0)));
  for (int64_t i = 1; i <= 100'000; ++i)
    ASSERT_LE(portable::PortableLog(1 - static_cast<double>(i) * 0x1p-53), 0) << i;
}

TEST(PortableMathTest, CosTurnsIsWithinTwoUlps) {
  constexpr long double kHalfPi = 1.57079632679489661923132169163975144L;
  double worst = 0;
  for (int64_t i = 0; i < 1'000'000; ++i) {
    const double dense = static_cast<double>(i) * 1e-6;
    const double fine = std::ldexp(dense, -static_cast<int>(i % 40));
    for (const double turns : {dense, fine, 0.25 + fine / 4, 0.5 - fine / 2, 0.75 + fine / 8}) {
      // The reference reduces its argument exactly, as cosl(2 pi turns) cannot, so it is accurate near zeros too.
      const int q = static_cast<int>(std::nearbyint(4 * turns));
      const long double angle = (4 * static_cast<long double>(turns) - q) * kHalfPi;
      const long double magnitude = q % 2 == 0 ? std::cos(angle) : std::sin(angle);
      const long double truth = q == 1 || q == 2 ? -magnitude : magnitude;
      if (truth == 0) ASSERT_EQ(portable::PortableCosTurns(turns), 0);
      else worst = std::max(worst, ErrorInUlps(portable::PortableCosTurns(turns), truth));
      ASSERT_LE(std::fabs(portable::PortableCosTurns(turns)), 1) << turns;
    }
  }
  EXPECT_LE(worst, 2);
}

TEST(PortableMathTest, CosTurnsIsExactAtQuarters) {
  EXPECT_EQ(portable::PortableCosTurns(0), 1);
  EXPECT_EQ(portable::PortableCosTurns(0.25), 0);
  EXPECT_EQ(portable::PortableCosTurns(0.5), -1);
  EXPECT_EQ(portable::PortableCosTurns(0.75), 0);
}

}  // namespace
}  // namespace meshwork::philox_test
