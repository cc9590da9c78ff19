#include "meshwork/base/log.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace meshwork::log_test {
namespace {

using ::testing::ElementsAre;
using ::testing::MatchesRegex;

class LogTest : public testing::Test {
 protected:
  void TearDown() override {
    SetLogSink(nullptr);
    SetLogTask("");
  }
};

TEST_F(LogTest, ALineHasLevelTimeAndProcess) {
  setenv("TZ", "UTC", 1);
  tzset();
  const LogLine line{.level = LogLevel::kWarning,
                     .time = std::chrono::system_clock::from_time_t(1764389899) +  // 2025-11-29 04:18:19
                             std::chrono::microseconds(1234),
                     .process = "worker 1",
                     .text = "it goes on"};
  EXPECT_EQ(line.ToString(), "W1129 04:18:19.001234 worker 1] it goes on");
}

TEST_F(LogTest, EachLineOfATextHasTheHeadAndNoneCanBeForged) {
  const LogLine line{.process = "ps 0\nE", .text = "one\ntwo\x1b[2J\r"};
  const std::string all = line.ToString();
  const size_t end = all.find('\n');
  EXPECT_THAT(all.substr(0, end), MatchesRegex(R"(I.* "ps 0\\nE"\] one)"));
  EXPECT_THAT(all.substr(end + 1), MatchesRegex(R"(I.* "ps 0\\nE"\] two\\u001b\[2J\\(r|u000d))"));
}

TEST_F(LogTest, GoesToStandardErrorWithTheTaskOrTheNumberOfTheProcess) {
  testing::internal::CaptureStderr();
  Log(LogLevel::kInfo, "{} of {}", 1, 2);
  SetLogTask("chief 0");
  Log(LogLevel::kError, "none");
  const std::string said = testing::internal::GetCapturedStderr();
  const std::string time = R"([0-9]{4} [0-9:]{8}\.[0-9]{6} )";
  EXPECT_THAT(said, testing::ContainsRegex("^I" + time + R"([0-9]+\] 1 of 2)"));
  EXPECT_THAT(said, testing::ContainsRegex("E" + time + R"(chief 0\] none)"));
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 2);
}

TEST_F(LogTest, ASinkGetsTheLinesInPlaceOfStandardError) {
  std::vector<std::string> lines;
  EXPECT_EQ(SetLogSink([&](const LogLine& line) { lines.push_back(line.text); }), nullptr);
  testing::internal::CaptureStderr();
  LogText(LogLevel::kInfo, "{}");
  const LogSink last = SetLogSink(nullptr);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  last({.text = "again"});
  EXPECT_THAT(lines, ElementsAre("{}", "again"));
}

TEST_F(LogTest, ASinkThatLogsDoesNotCallItself) {
  int64_t calls = 0;
  SetLogSink([&](const LogLine&) {
    ++calls;
    Log(LogLevel::kWarning, "the file of the log is full");
  });
  testing::internal::CaptureStderr();
  Log(LogLevel::kInfo, "one");
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::EndsWith("] the file of the log is full\n"));
  EXPECT_EQ(calls, 1);
}

TEST_F(LogTest, ThreadsLogAndChangeTheSinkAtTheSameTime) {
  std::atomic<int64_t> seen = 0;
  SetLogSink([&](const LogLine&) { ++seen; });
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        Log(LogLevel::kInfo, "line {}", i);
        SetLogSink([&](const LogLine&) { ++seen; });
        SetLogTask(fmt::format("worker {}", i));
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(seen, 400);
}

}  // namespace
}  // namespace meshwork::log_test
