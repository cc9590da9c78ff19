#include "runtime/transfer.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace meshwork {
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

TEST(TransferTest, ReducesByEveryOp) {
  const std::vector<std::vector<int32_t>> sources = {{1, 5}, {4, -2}, {2, 3}};
  EXPECT_THAT(ReduceAll(ReduceOp::kSum, sources), ElementsAre(7, 6));
  EXPECT_THAT(ReduceAll(ReduceOp::kProd, sources), ElementsAre(8, -30));
  EXPECT_THAT(ReduceAll(ReduceOp::kMax, sources), ElementsAre(4, 5));
  EXPECT_THAT(ReduceAll(ReduceOp::kMin, sources), ElementsAre(1, -2));
}

TEST(TransferTest, MaxAndMinKeepNan) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (ReduceOp op : {ReduceOp::kMax, ReduceOp::kMin}) {
    const std::vector<double> r = ReduceAll<double>(op, {{nan, 1, 1}, {1, nan, 1}, {1, 1, 1}});
    EXPECT_TRUE(std::isnan(r[0]));
    EXPECT_TRUE(std::isnan(r[1]));
    EXPECT_EQ(r[2], 1);
  }
}

TEST(TransferTest, IntegersWrap) {
  const int64_t most = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(ReduceAll<int64_t>(ReduceOp::kSum, {{most}, {1}}),
              ElementsAre(std::numeric_limits<int64_t>::min()));
  EXPECT_THAT(ReduceAll<int32_t>(ReduceOp::kProd, {{1 << 30}, {4}}), ElementsAre(0));
}

TEST(TransferTest, BoolsAreOrAndAnd) {
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

// Sums of floats depend on their order; it must be that of the sources, for any number of them.
TEST(TransferTest, ReducesInTheOrderOfTheSources) {
  for (int n : {1, 2, 3, 4, 5, 6, 7, 8, 9, 63, 64, 65, 130, 200}) {
    constexpr int kElements = 5000;
    std::vector<std::vector<float>> values(n, std::vector<float>(kElements));
    std::vector<float> expected(kElements);
    for (int k = 0; k < n; ++k) {
      for (int i = 0; i < kElements; ++i) {
        values[k][i] =
            std::sin(static_cast<float>(i * 7 + k * 13)) * std::pow(10.0f, static_cast<float>(k % 7));
        expected[i] = k == 0 ? values[k][i] : expected[i] + values[k][i];
      }
    }
    std::vector<float> to(kElements);
    std::vector<std::byte*> addresses = {reinterpret_cast<std::byte*>(to.data())};
    Transfer transfer;
    transfer.box = BoxCopy::Linear(kElements);
    transfer.to = 0;
    for (int k = 0; k < n; ++k) {
      addresses.push_back(reinterpret_cast<std::byte*>(values[k].data()));
      transfer.from.push_back(k + 1);
    }
    const std::vector<WorkSlice> slices = {{0, 0, 33}, {0, 4100, kElements}, {0, 33, 4100}};
    RunTransfers({&transfer, 1}, slices, addresses);
    ASSERT_EQ(std::memcmp(to.data(), expected.data(), kElements * sizeof(float)), 0) << n << " sources";
  }
}

TEST(TransferTest, ReducesABoxIntoAnother) {
  // Column 1 of two [3,2] buffers, summed into column 0 of a [3,3] one.
  const std::vector<int32_t> a = {1, 2, 3, 4, 5, 6}, b = {10, 20, 30, 40, 50, 60};
  std::vector<int32_t> to(9, 0);
  Transfer transfer;
  transfer.box = BoxCopy({{0, 3}, {1, 1}}, {{0, 0}, {3, 2}}, {{0, 1}, {3, 3}});
  transfer.dtype = I32;
  transfer.to = 0;
  transfer.from = {1, 2};
  std::byte* const addresses[] = {reinterpret_cast<std::byte*>(to.data()),
                                  reinterpret_cast<std::byte*>(const_cast<int32_t*>(a.data())),
                                  reinterpret_cast<std::byte*>(const_cast<int32_t*>(b.data()))};
  const std::vector<WorkSlice> slices = {{0, 0, 3}};
  RunTransfers({&transfer, 1}, slices, addresses);
  EXPECT_THAT(to, ElementsAre(22, 0, 0, 44, 0, 0, 66, 0, 0));
}

}  // namespace
}  // namespace meshwork
