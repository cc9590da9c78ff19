#include "meshwork/ir/plan/memory_plan.h"

#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace meshwork::memory_plan_test {
namespace {

using ::testing::ElementsAre;

void ExpectValid(const std::vector<BufferRequest>& requests, const MemoryPlan& plan, int64_t alignment) {
  ASSERT_EQ(plan.offsets.size(), requests.size());
  EXPECT_GE(plan.peak, MaxLiveBytes(requests));
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(plan.offsets[i] % alignment, 0);
    EXPECT_LE(plan.offsets[i] + requests[i].bytes, std::max<int64_t>(plan.peak, 0));
    for (size_t j = 0; j < i; ++j) {
      if (requests[i].begin > requests[j].end || requests[j].begin > requests[i].end) continue;
      EXPECT_TRUE(plan.offsets[i] + requests[i].bytes <= plan.offsets[j] ||
                  plan.offsets[j] + requests[j].bytes <= plan.offsets[i] || requests[i].bytes == 0 ||
                  requests[j].bytes == 0)
          << i << " and " << j << " overlap";
    }
  }
}

TEST(MemoryPlanTest, PlansNothing) {
  const MemoryPlan plan = PlanBuffers({});
  EXPECT_TRUE(plan.offsets.empty());
  EXPECT_EQ(plan.peak, 0);
}

TEST(MemoryPlanTest, ReusesMemoryThatIsFree) {
  const std::vector<BufferRequest> requests = {{100, 0, 1}, {100, 1, 2}, {100, 2, 3}};
  const MemoryPlan plan = PlanBuffers(requests);
  EXPECT_THAT(plan.offsets, ElementsAre(0, 128, 0));
  EXPECT_EQ(plan.peak, 228);
}

TEST(MemoryPlanTest, TakesTheTightestGap) {
  // When the first and the third end, gaps of 640 and 320 bytes are free before the remaining buffers.
  const std::vector<BufferRequest> requests = {
      {640, 0, 0}, {512, 0, 2}, {300, 0, 0}, {256, 0, 2}, {100, 2, 2}};
  const MemoryPlan plan = PlanBuffers(requests);
  ExpectValid(requests, plan, 64);
  EXPECT_THAT(plan.offsets, ElementsAre(0, 640, 640 + 512, 640 + 512 + 320, 640 + 512));
}

TEST(MemoryPlanTest, EmptyBuffersTakeNoRoom) {
  const MemoryPlan plan = PlanBuffers(std::vector<BufferRequest>{{0, 0, 5}, {64, 0, 5}, {0, 2, 3}});
  EXPECT_THAT(plan.offsets, ElementsAre(0, 0, 0));
  EXPECT_EQ(plan.peak, 64);
}

TEST(MemoryPlanTest, EqualsTheBoundWhereSizesAreEqual) {
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    std::vector<BufferRequest> requests;
    for (int i = 0; i < 40; ++i) {
      const int begin = static_cast<int>(random() % 30);
      requests.push_back({128, begin, begin});  // intervals of one tick: first fit is exact
    }
    EXPECT_EQ(PlanBuffers(requests).peak, MaxLiveBytes(requests));
  }
}

TEST(MemoryPlanTest, LiveBuffersNeverOverlap) {
  std::mt19937 random(2);
  for (int round = 0; round < 50; ++round) {
    std::vector<BufferRequest> requests;
    for (int i = 0; i < 60; ++i) {
      const int begin = static_cast<int>(random() % 40);
      requests.push_back(
          {static_cast<int64_t>(random() % 1000), begin, begin + static_cast<int>(random() % 8)});
    }
    for (int64_t alignment : {1, 64, 4096})
      ExpectValid(requests, PlanBuffers(requests, alignment), alignment);
  }
}

TEST(MemoryPlanTest, BytesLiveAtEachTick) {
  EXPECT_THAT(LiveBytes(std::vector<BufferRequest>{{100, 0, 1}, {10, 1, 3}, {1, 3, 3}, {0, 4, 4}}),
              ElementsAre(100, 110, 10, 11, 0));
  EXPECT_THAT(LiveBytes({}), ElementsAre());
}

}  // namespace
}  // namespace meshwork::memory_plan_test
