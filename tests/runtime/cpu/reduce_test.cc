#include "meshwork/runtime/cpu/reduce.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/bfloat16.h"
#include "meshwork/base/cpu_dispatch.h"

namespace meshwork::reduce_test {
namespace {

using ::testing::ElementsAre;

template <typename T>
std::vector<T> ReduceAll(ReduceOp op, const std::vector<std::vector<T>>& sources) {
  std::vector<const std::byte*> pointers;
  for (const auto& source : sources) pointers.push_back(reinterpret_cast<const std::byte*>(source.data()));
  std::vector<T> to(sources[0].size());
  Reduce(op, DTypeOf<T>(), reinterpret_cast<std::byte*>(to.data()), pointers, 0,
         static_cast<int64_t>(to.size()));
  return to;
}

TEST(ReduceTest, ReducesByEveryOp) {
  const std::vector<std::vector<int32_t>> sources = {{1, 5}, {4, -2}, {2, 3}};
  EXPECT_THAT(ReduceAll(ReduceOp::kSum, sources), ElementsAre(7, 6));
  EXPECT_THAT(ReduceAll(ReduceOp::kProd, sources), ElementsAre(8, -30));
  EXPECT_THAT(ReduceAll(ReduceOp::kMax, sources), ElementsAre(4, 5));
  EXPECT_THAT(ReduceAll(ReduceOp::kMin, sources), ElementsAre(1, -2));
}

TEST(ReduceTest, MaxAndMinKeepNan) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (ReduceOp op : {ReduceOp::kMax, ReduceOp::kMin}) {
    const std::vector<double> r = ReduceAll<double>(op, {{nan, 1, 1}, {1, nan, 1}, {1, 1, 1}});
    EXPECT_TRUE(std::isnan(r[0]));
    EXPECT_TRUE(std::isnan(r[1]));
    EXPECT_EQ(r[2], 1);
  }
}

TEST(ReduceTest, IntegersWrap) {
  const int64_t most = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(ReduceAll<int64_t>(ReduceOp::kSum, {{most}, {1}}),
              ElementsAre(std::numeric_limits<int64_t>::min()));
  EXPECT_THAT(ReduceAll<int32_t>(ReduceOp::kProd, {{1 << 30}, {4}}), ElementsAre(0));
}

TEST(ReduceTest, BoolsAreOrAndAnd) {
  const uint8_t a[] = {0, 0, 1, 1}, b[] = {0, 1, 0, 1};
  const std::byte* sources[] = {reinterpret_cast<const std::byte*>(a), reinterpret_cast<const std::byte*>(b)};
  uint8_t to[4];
  for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax}) {
    Reduce(op, BOOL, reinterpret_cast<std::byte*>(to), sources, 0, 4);
    EXPECT_THAT(to, ElementsAre(0, 1, 1, 1));
  }
  for (ReduceOp op : {ReduceOp::kProd, ReduceOp::kMin}) {
    Reduce(op, BOOL, reinterpret_cast<std::byte*>(to), sources, 0, 4);
    EXPECT_THAT(to, ElementsAre(0, 0, 0, 1));
  }
}

// The definition in the header: one element and one source at a time.
template <typename T>
T CombineOne(ReduceOp op, T a, T b) {
  if constexpr (std::is_same_v<T, bool>) {
    const bool any = op == ReduceOp::kSum || op == ReduceOp::kMax || op == ReduceOp::kOr;
    return any ? a || b : a && b;
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return BFloat16(CombineOne(op, float{a}, float{b}));
  } else {
    if (op == ReduceOp::kSum) {
      if constexpr (std::is_integral_v<T>)
        return static_cast<T>(std::make_unsigned_t<T>(a) + std::make_unsigned_t<T>(b));
      return a + b;
    }
    if (op == ReduceOp::kProd) {
      if constexpr (std::is_integral_v<T>)
        return static_cast<T>(std::make_unsigned_t<T>(a) * std::make_unsigned_t<T>(b));
      return a * b;
    }
    if (std::isnan(static_cast<double>(a))) return a;
    if (std::isnan(static_cast<double>(b))) return b;
    return op == ReduceOp::kMax ? (a > b ? a : b) : (a < b ? a : b);
  }
}

// Values of a type, with rounding, wrapping and NaN among them.
template <typename T>
T Draw(std::mt19937& random) {
  if constexpr (std::is_same_v<T, bool>) return random() % 2 == 0;
  else if constexpr (std::is_integral_v<T>) return static_cast<T>(uint64_t{random()} << 32 | random());
  else
    return random() % 50 == 0 ? T(std::numeric_limits<float>::quiet_NaN())
                              : T(std::ldexp(static_cast<float>(random() % 2001) - 1000.0f,
                                             static_cast<int>(random() % 12) - 6));
}

// A vector<bool> has no elements with addresses.
template <typename T>
using Array = std::vector<std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>>;

template <typename T>
void ExpectLikeAPlainLoop(DType dtype, const std::vector<ReduceOp>& ops) {
  constexpr int64_t kOffset = 3, kMost = 5000;
  std::mt19937 random(1);
  std::vector<Array<T>> sources(20, Array<T>(kMost + kOffset));
  for (auto& source : sources)
    for (auto& x : source) x = Draw<T>(random);
  std::vector<const std::byte*> pointers;
  for (const auto& source : sources) pointers.push_back(reinterpret_cast<const std::byte*>(source.data()));
  for (const ReduceOp op : ops) {
    Array<T> expected(sources[0].begin() + kOffset, sources[0].end());
    for (size_t n = 1; n <= sources.size(); ++n) {
      for (int64_t i = 0; n > 1 && i < kMost; ++i)
        expected[i] = CombineOne<T>(op, T(expected[i]), T(sources[n - 1][i + kOffset]));
      for (const int64_t count : {int64_t{0}, int64_t{1}, int64_t{15}, int64_t{1025}, kMost}) {
        Array<T> to(kMost);
        Reduce(op, dtype, reinterpret_cast<std::byte*>(to.data()), {pointers.data(), n}, kOffset, count);
        for (int64_t i = 0; i < count; ++i) {
          // NaN has many bit patterns.
          if (std::isnan(static_cast<double>(expected[i])))
            ASSERT_TRUE(std::isnan(static_cast<double>(to[i])));
          else
            ASSERT_EQ(std::memcmp(&to[i], &expected[i], sizeof(to[i])), 0)
                << ReduceOpName(op) << " of " << n << " sources, element " << i << " of " << count;
        }
      }
      // The target is the first source.
      Array<T> first = sources[0];
      std::vector<const std::byte*> in_place(pointers.begin(), pointers.begin() + static_cast<int64_t>(n));
      in_place[0] = reinterpret_cast<const std::byte*>(first.data());
      Reduce(op, dtype, reinterpret_cast<std::byte*>(first.data() + kOffset), in_place, kOffset, kMost);
      for (int64_t i = 0; i < kMost; ++i) {
        if (!std::isnan(static_cast<double>(expected[i]))) {
          ASSERT_EQ(std::memcmp(&first[i + kOffset], &expected[i], sizeof(first[i])), 0)
              << ReduceOpName(op) << " in place, " << n << " sources, element " << i;
        }
      }
    }
  }
}

// On every level of CPU that this CPU supports.
class ReduceLevelTest : public testing::TestWithParam<CpuLevel> {
 protected:
  void SetUp() override {
    if (GetParam() > BestCpuLevel()) GTEST_SKIP() << "this CPU has none";
    UseCpuLevel(GetParam());
  }
  void TearDown() override { UseCpuLevel(BestCpuLevel()); }
};

TEST_P(ReduceLevelTest, EveryTypeAndNumberOfSourcesIsLikeAPlainLoop) {
  const std::vector<ReduceOp> arithmetic = {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin, ReduceOp::kProd};
  ExpectLikeAPlainLoop<float>(F32, arithmetic);
  ExpectLikeAPlainLoop<double>(F64, arithmetic);
  ExpectLikeAPlainLoop<BFloat16>(BF16, arithmetic);
  ExpectLikeAPlainLoop<int32_t>(I32, arithmetic);
  ExpectLikeAPlainLoop<int64_t>(I64, arithmetic);
  ExpectLikeAPlainLoop<bool>(BOOL, {std::begin(kAllReduceOps), std::end(kAllReduceOps)});
}

INSTANTIATE_TEST_SUITE_P(Levels, ReduceLevelTest,
                         testing::Values(CpuLevel::kBaseline, CpuLevel::kV3, CpuLevel::kV4),
                         [](const auto& info) { return CpuLevelName(info.param); });

}  // namespace
}  // namespace meshwork::reduce_test
