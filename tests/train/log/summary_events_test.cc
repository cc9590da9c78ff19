#include "meshwork/train/log/summary_events.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "meshwork/base/random.h"

namespace meshwork::summary_events_test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kMost = std::numeric_limits<double>::max();

std::vector<double> Counts(const Buckets& buckets) {
  std::vector<double> counts;
  for (const Bucket& bucket : buckets.buckets) counts.push_back(bucket.count);
  return counts;
}

using ::testing::ElementsAre;

TEST(BucketsTest, HoldTheElementsFromTheirLeftEndOn) {
  const Buckets b = BucketsOf(Tensor::From<double>({7}, {0, 0.5, 1, 2, 3.999, 4, 4}), 4);
  EXPECT_THAT(Counts(b), ElementsAre(2, 1, 1, 3));  // 4 is counted in the last bucket
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(b.buckets[i].left, static_cast<double>(i));
    EXPECT_EQ(b.buckets[i].right, static_cast<double>(i + 1));
  }
}

// Compared with a loop over the edges that BucketsOf returned.
TEST(BucketsTest, CountWhatLiesBetweenTheirEdges) {
  Random random(/*seed=*/5, 0);
  std::vector<float> values;
  for (int i = 0; i < 5000; ++i) values.push_back(static_cast<float>(random.Below(1 << 20)) / 977 - 300);
  const Buckets b = BucketsOf(Tensor::From<float>({50, 100}, values), 30);
  double total = 0;
  for (size_t i = 0; i < b.buckets.size(); ++i) {
    const auto& [left, right, count] = b.buckets[i];
    if (i > 0) {
      EXPECT_EQ(left, b.buckets[i - 1].right);
    }
    double expected = 0;
    for (float x : values) expected += x >= left && (x < right || i + 1 == b.buckets.size()) ? 1 : 0;
    EXPECT_EQ(count, expected) << i;
    total += count;
  }
  EXPECT_EQ(total, 5000);
  EXPECT_EQ(b.buckets.front().left, *std::min_element(values.begin(), values.end()));
  EXPECT_EQ(b.buckets.back().right, *std::max_element(values.begin(), values.end()));
}

TEST(BucketsTest, OfOneNumberAreTheLastOne) {
  const Buckets b = BucketsOf(Tensor::From<int32_t>({3}, {-5, -5, -5}), 3);
  EXPECT_THAT(Counts(b), ElementsAre(0, 0, 3));
  for (const Bucket& bucket : b.buckets) {
    EXPECT_EQ(bucket.left, -5);
    EXPECT_EQ(bucket.right, -5);
  }
}

TEST(BucketsTest, LeaveOutWhatIsNotFinite) {
  const Buckets b = BucketsOf(Tensor::From<double>({5}, {1, kInfinity, 3, std::nan(""), -kInfinity}), 2);
  EXPECT_THAT(Counts(b), ElementsAre(1, 1));
  EXPECT_EQ(b.not_finite, 3);
  EXPECT_THAT(Counts(BucketsOf(Tensor::From<double>({1}, {kInfinity}), 2)), ElementsAre(0, 0));
  EXPECT_THAT(Counts(BucketsOf(Tensor::Zeros({F32, {0}}), 2)), ElementsAre(0, 0));
}

// The width of the whole range is not a finite f64.
TEST(BucketsTest, SpanTheRangeOfDoubles) {
  const Buckets b = BucketsOf(Tensor::From<double>({4}, {-kMost, -1e307, 1e307, kMost}), 4);
  EXPECT_THAT(Counts(b), ElementsAre(1, 1, 1, 1));
  EXPECT_EQ(b.buckets[0].left, -kMost);
  EXPECT_EQ(b.buckets[2].left, 0);
  EXPECT_EQ(b.buckets[3].right, kMost);
  const double tiny = std::numeric_limits<double>::denorm_min();
  EXPECT_THAT(Counts(BucketsOf(Tensor::From<double>({2}, {0, tiny}), 2)), ElementsAre(1, 1));
}

TEST(BucketsTest, TakeEveryDType) {
  const std::vector<double> expected = {1, 1};
  EXPECT_EQ(Counts(BucketsOf(Tensor::From<BFloat16>({2}, {BFloat16(1), BFloat16(2)}), 2)), expected);
  EXPECT_EQ(Counts(BucketsOf(Tensor::From<int64_t>({2}, {1, 2}), 2)), expected);
  EXPECT_EQ(Counts(BucketsOf(Tensor::From<bool>({2}, {false, true}), 2)), expected);
}

}  // namespace
}  // namespace meshwork::summary_events_test
