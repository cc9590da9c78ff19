// Processes whose memory goes bad, and processes that fork.
#include <chrono>
#include <string>

#include "gmock/gmock.h"
#include "processes/launched.h"

namespace meshwork::mishaps_test {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

using MishapsTest = LaunchedTest;

// Each process finds the flipped bit, or hears of it from another that has.
TEST_P(MishapsTest, AFlippedBitEndsAllAndIsNamed) {
  const Finished finished = Launch(2, MISHAPS, {"flip", "1", dir()});
  EXPECT_NE(finished.code, 0);
  EXPECT_THAT(
      finished.err,
      ContainsRegex("mishaps: worker [01] on [^ ]+: (worker [01] on [^ ]+: )?Replicas: variable \"w\", "
                    "f32\\[6,4\\] \\{_,_\\} on \\[batch=2\\*2\\], differs at step 6: devices 0-1 of worker 0 "
                    "on [^ ]+ hold [0-9a-f]+, devices 2-3 of worker 1 on [^ ]+ hold [0-9a-f]+; "));
  EXPECT_THAT(finished.out, Not(HasSubstr("trained")));
  EXPECT_THAT(LeftBehind(), IsEmpty());
}

TEST_P(MishapsTest, OfFourTheOneIsNamed) {
  const Finished finished = Launch(4, MISHAPS, {"flip", "2", dir()});
  EXPECT_NE(finished.code, 0);
  EXPECT_THAT(finished.err,
              ContainsRegex(
                  ": device 2 of worker 2 on [^ ]+ holds [0-9a-f]+, the other 3 replicas hold [0-9a-f]+; "));
  EXPECT_THAT(LeftBehind(), IsEmpty());
}

TEST_P(MishapsTest, AForkedProcessDisturbsNobody) {
  for (int processes : {2, 4}) {
    const Finished finished = Launch(processes, MISHAPS, {"fork", dir()});
    EXPECT_EQ(finished.code, 0) << finished.err;
    size_t trained = 0;
    for (size_t at = 0; (at = finished.out.find("trained: 7 steps", at)) != std::string::npos; ++at)
      ++trained;
    EXPECT_EQ(trained, static_cast<size_t>(processes)) << finished.out;
    EXPECT_THAT(LeftBehind(), IsEmpty());
  }
}

// A child that outlives its parent does not hide the parent's death. The launcher leaves the others three seconds.
TEST_P(MishapsTest, AnOrphanHidesNobody) {
  if (GetParam().name != "TfConfig") GTEST_SKIP() << "mpirun ends the job";
  const Finished finished = Launch(2, MISHAPS, {"orphan", dir()});
  EXPECT_NE(finished.code, 0);
  EXPECT_THAT(finished.err, HasSubstr("the connection to domain 1, worker 1"));
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(MishapsTest);
INSTANTIATE_TEST_SUITE_P(Launchers, MishapsTest, testing::ValuesIn(Launchers()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace meshwork::mishaps_test
