#include "meshwork/base/random.h"

#include <vector>

#include "gtest/gtest.h"

namespace meshwork::random_test {
namespace {

TEST(RandomTest, IsTheSameOnEveryPlatform) {
  Random random(7, 3);
  EXPECT_EQ(random.Next(), 3124813371623710830u);
  EXPECT_EQ(random.Next(), 15097319836102485875u);
  EXPECT_EQ(random.Below(1000), 641u);
  EXPECT_EQ(random.Uniform(), 0x1.e1885a1ae3092p-2);
}

TEST(RandomTest, SeedsAndStreamsDiffer) {
  EXPECT_NE(Random(1).Next(), Random(2).Next());
  EXPECT_NE(Random(1, 0).Next(), Random(1, 1).Next());
  EXPECT_NE(Random(1, 2).Next(), Random(2, 1).Next());
  EXPECT_NE(Random(3, 3).Next(), Random(4, 4).Next());
}

TEST(RandomTest, BelowCoversItsRangeEvenly) {
  Random random(1);
  std::vector<int> count(6);
  for (int i = 0; i < 60000; ++i) ++count.at(random.Below(6));
  for (int n : count) EXPECT_NEAR(n, 10000, 400);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(random.Below(1), 0u);
  for (int i = 0; i < 10; ++i) EXPECT_LT(random.Below(uint64_t{3} << 62), uint64_t{3} << 62);
}

TEST(RandomTest, UniformStaysInItsRange) {
  Random random(1);
  double sum = 0;
  for (int i = 0; i < 10000; ++i) {
    const double x = random.Uniform(-2, 3);
    ASSERT_TRUE(-2 <= x && x < 3) << x;
    sum += x;
  }
  EXPECT_NEAR(sum / 10000, 0.5, 0.05);
}

}  // namespace
}  // namespace meshwork::random_test
