#include "meshwork/train/parameter_server/rpc/presence.h"

#include <string>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/log.h"

namespace meshwork::presence_test {
namespace {

using std::chrono::milliseconds, std::chrono::seconds;
using ::testing::ElementsAre;

class PresenceTest : public testing::Test {
 protected:
  PresenceTest() {
    SetLogSink([this](const LogLine& line) {
      lines_.push_back(fmt::format("{} {}", "IWE"[static_cast<size_t>(line.level)], line.text));
    });
  }
  ~PresenceTest() override { SetLogSink(nullptr); }

  Presence Made(PresenceOptions options = {}) {
    options.clock = [this] { return std::chrono::steady_clock::time_point(now_); };
    return Presence("worker 1", options);
  }
  // The worker is found away every 100 ms, for `how_long`.
  void StayAway(Presence& worker, milliseconds how_long) {
    for (const milliseconds end = now_ + how_long; now_ < end; now_ += milliseconds(100))
      worker.NoteAway("it is silent");
  }

  milliseconds now_ = seconds(1000);
  std::vector<std::string> lines_;
};

TEST_F(PresenceTest, SaysOnceThatAProcessIsLostAndOnceThatItIsThereAgain) {
  Presence worker = Made();
  for (int i = 0; i < 3; ++i) worker.NoteThere();
  StayAway(worker, seconds(4));
  worker.NoteThere();
  worker.NoteThere();
  StayAway(worker, milliseconds(300));
  worker.NoteThere();
  EXPECT_THAT(lines_,
              ElementsAre("W worker 1 is lost: it is silent.", "I worker 1 is there again, after 4s.",
                          "W worker 1 is lost: it is silent.", "I worker 1 is there again, after 300ms."));
}

TEST_F(PresenceTest, SaysOnceThatItWaitsForLong) {
  Presence worker = Made();
  worker.NoteThere();
  StayAway(worker, seconds(75));
  worker.NoteThere();
  EXPECT_THAT(lines_, ElementsAre("W worker 1 is lost: it is silent.",
                                  "W waits for worker 1, which has been away for 10s: it is silent.",
                                  "I worker 1 is there again, after 75s."));
}

TEST_F(PresenceTest, AProcessThatWasNeverThereIsNotLost) {
  Presence worker = Made();
  StayAway(worker, seconds(9));
  worker.NoteThere();
  EXPECT_THAT(lines_, ElementsAre());
  Presence late = Made();
  StayAway(late, seconds(11));
  late.NoteThere();
  EXPECT_THAT(lines_, ElementsAre("W waits for worker 1, which has been away for 10s: it is silent.",
                                  "I worker 1 is there, after 11s."));
}

TEST_F(PresenceTest, OneThatIsAwayForAMomentIsNotLost) {
  Presence worker = Made({.is_waited_for = false, .grace = seconds(2)});
  worker.NoteThere();
  StayAway(worker, milliseconds(1900));
  worker.NoteThere();
  EXPECT_THAT(lines_, ElementsAre());
  StayAway(worker, seconds(60));
  worker.NoteThere();
  EXPECT_THAT(lines_,
              ElementsAre("W worker 1 is lost: it is silent.", "I worker 1 is there again, after 1min."));
}

}  // namespace
}  // namespace meshwork::presence_test
