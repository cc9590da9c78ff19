#include "meshwork/runtime/plan/step_clock.h"

#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace meshwork::step_clock_test {
namespace {

constexpr auto kCross = StepItem::Kind::kCross;

double SecondsOf(const std::vector<StepItem>& items) { return TimeItems(items).clock.now; }

TEST(StepClockTest, DataCrossesBesideComputeUntilItIsRead) {
  const StepTimes step = TimeItems(
      {{.seconds = 3}, {.kind = kCross, .seconds = 4, .latency = 1}, {.seconds = 2}, {.reads = {1}}});
  EXPECT_EQ(step.clock.now, 8);
  EXPECT_EQ(step.clock.waited_seconds, 3);
  EXPECT_EQ(step.reached, (std::vector<double>{0, 3, 3, 5, 8}));
}

TEST(StepClockTest, DataIsSentEarlyOrWhenTheDeviceIsThere) {
  for (const bool early : {true, false}) {
    const std::vector<StepItem> items = {
        {.seconds = 3},
        {.seconds = 2},
        {.kind = kCross, .reads = {0}, .seconds = 4, .early = early, .waits = true}};
    EXPECT_EQ(SecondsOf(items), early ? 3 + 4 : 5 + 4);
  }
}

// A loop takes as long alone as it does otherwise, if no data is on the way when it begins.
TEST(StepClockTest, LoopsAndBranchesTakeTheirBodies) {
  for (const bool alone : {true, false}) {
    const std::vector<StepItem> cheap = {{.label = 0, .seconds = 1}},
                                dear = {{.label = 1, .seconds = 2},
                                        {.kind = kCross, .seconds = 3, .waits = true}};
    const StepItem branch{
        .kind = StepItem::Kind::kBranch, .label = 2, .alone = alone, .bodies = {cheap, dear, dear}};
    const StepTimes step = TimeItems({{.seconds = 7},
                                      {.kind = StepItem::Kind::kRepeat,
                                       .label = 3,
                                       .alone = alone,
                                       .times = 10,
                                       .bodies = {{branch}, cheap}}});
    EXPECT_EQ(step.clock.now, 7 + 10 * (2 + 3 + 1));
    EXPECT_EQ(step.clock.link_seconds, 10 * 3);
    EXPECT_EQ(step.clock.now, step.clock.compute_seconds + step.clock.waited_seconds);
    std::vector<std::pair<int, double>> spans;
    for (const ItemSpan& span : step.spans) spans.emplace_back(span.label, span.start);
    EXPECT_EQ(spans, (std::vector<std::pair<int, double>>{{3, 7}, {2, 7}, {1, 7}, {0, 12}}));
    EXPECT_EQ(step.spans[0].seconds, 60);
    EXPECT_EQ(step.spans[2].times, 10);
    EXPECT_EQ(step.spans[2].depth, 2);
  }
}

// The first turn waits for what was sent before the loop; the others do not.
TEST(StepClockTest, ALoopMayBeginWhileDataIsOnTheWay) {
  EXPECT_EQ(SecondsOf({{.kind = kCross, .seconds = 20},
                       {.kind = StepItem::Kind::kRepeat,
                        .times = 5,
                        .bodies = {{{.seconds = 1}, {.kind = kCross, .seconds = 3, .waits = true}}}}}),
            20 + 3 + 4 * (1 + 3));
}

}  // namespace
}  // namespace meshwork::step_clock_test
