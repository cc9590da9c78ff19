// What processes tell each other between steps. Here they are domains of this process, with clocks that the test sets.
#include "meshwork/train/cluster/pulse.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/transport/loopback.h"
#include "meshwork/runtime/transport/timed.h"
#include "train/saved_training.h"

namespace meshwork::pulse_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// The end of a domain, with a waiting time that the test sets.
class WaitedEnd : public Transport {
 public:
  explicit WaitedEnd(Transport& end) : end_(end) {}
  int64_t domain() const override { return end_.domain(); }
  int64_t num_domains() const override { return end_.num_domains(); }
  double seconds_waited() const override { return waited; }
  absl::StatusOr<std::vector<std::string>> ExchangeTexts(std::string_view what,
                                                         std::string_view text) override {
    ++gathers;
    return end_.ExchangeTexts(what, text);
  }
  absl::StatusOr<std::unique_ptr<RemoteOp>> Prepare(RemoteSpec spec) override {
    return end_.Prepare(std::move(spec));
  }
  void Abort(absl::Status reason) override { end_.Abort(std::move(reason)); }

  double waited = 0;
  int gathers = 0;

 private:
  Transport& end_;
};

TEST(PulseTest, ComesOnceASecond) {
  InDomainsOf(3, [](Transport* end) {
    WaitedEnd counted(*end);
    double now = 100 * static_cast<double>(end->domain());  // clocks need not agree
    Pulse pulse(&counted, {.clock = [&] { return now; }});
    std::vector<int64_t> between;
    for (int step = 0; step < 1000; ++step) {
      now += end->domain() == 0 ? 0.01 : 0.02;  // the chief's clock counts
      const int before = counted.gathers;
      ASSERT_EQ(MessageOf(pulse.AfterStep()), "");
      if (counted.gathers > before) between.push_back(pulse.steps_between());
    }
    ASSERT_GE(between.size(), 12u);
    EXPECT_THAT(std::vector<int64_t>(between.begin(), between.begin() + 8),
                ElementsAre(2, 4, 8, 16, 32, 64, 100, 100));
    EXPECT_EQ(between.back(), 100);
  });
}

TEST(PulseTest, FollowsStepsThatBecomeSlower) {
  double now = 0;
  Pulse pulse(nullptr, {.clock = [&] { return now; }});
  auto step = [&](double seconds) {
    now += seconds;
    ASSERT_EQ(MessageOf(pulse.AfterStep()), "");
  };
  for (int i = 0; i < 2000; ++i) step(0.001);
  EXPECT_EQ(pulse.steps_between(), 1000);
  for (int i = 0; i < 1000; ++i) step(0.5);
  EXPECT_EQ(pulse.steps_between(), 2);
  for (int i = 0; i < 2; ++i) step(30);
  EXPECT_EQ(pulse.steps_between(), 1);
}

// A clock may stand still, as one with coarse ticks does between fast steps, or go back.
TEST(PulseTest, BearsAnyClock) {
  double now = 0;
  Pulse pulse(nullptr, {.clock = [&] { return now; }});
  for (int i = 0; i < 100; ++i) ASSERT_EQ(MessageOf(pulse.AfterStep()), "");
  EXPECT_EQ(pulse.steps_between(), 64);
  now = -1e9;
  for (int i = 0; i < 500; ++i) ASSERT_EQ(MessageOf(pulse.AfterStep()), "");
  EXPECT_EQ(pulse.steps_between(), 512);
  now = 1e18;
  for (int i = 0; i < 512 && pulse.steps_between() > 1; ++i) ASSERT_EQ(MessageOf(pulse.AfterStep()), "");
  EXPECT_EQ(pulse.steps_between(), 1);
}

TEST(PulseTest, AllStopAfterTheSameStep) {
  std::vector<int> stopped(3);
  std::atomic<bool> asked = false;
  InDomainsOf(3, [&](Transport* end) {
    double now = 0;
    Pulse pulse(end, {.name = fmt::format("worker {}", end->domain()),
                      .stop = [&] { return end->domain() == 2 && asked; },
                      .clock = [&] { return now; }});
    int step = 0;
    while (step < 1000 && !pulse.stops()) {
      now += 0.1;
      if (++step == 41 && end->domain() == 2) asked = true;
      ASSERT_EQ(MessageOf(pulse.AfterStep()), "");
    }
    EXPECT_EQ(pulse.stopped_by(), "worker 2");
    stopped[static_cast<size_t>(end->domain())] = step;
  });
  EXPECT_GE(stopped[0], 41);
  EXPECT_LE(stopped[0], 51);
  EXPECT_THAT(stopped, testing::Each(stopped[0]));
}

TEST(PulseTest, AProcessThatIsAloneStopsAtOnce) {
  double now = 0;
  bool asked = false;
  Pulse pulse(nullptr, {.stop = [&] { return asked; }, .clock = [&] { return now; }});
  for (int i = 0; i < 500; ++i) {
    now += 0.001;
    ASSERT_EQ(MessageOf(pulse.AfterStep()), "");
  }
  EXPECT_FALSE(pulse.stops());
  asked = true;
  ASSERT_EQ(MessageOf(pulse.AfterStep()), "");
  EXPECT_EQ(pulse.stopped_by(), "this process");
}

TEST(PulseTest, CarriesWhatPartsSay) {
  InDomainsOf(2, [](Transport* end) {
    Pulse pulse(end);
    std::vector<std::string> first, second;
    const std::string mine = fmt::format("{}:\n\"{}", std::string(1, '\0'), end->domain());
    pulse.Add({"first", [&] { return mine; },
               [&](const std::vector<std::string>& texts) {
                 first = texts;
                 return absl::OkStatus();
               }});
    pulse.Add({"second", [] { return ""; },
               [&](const std::vector<std::string>& texts) {
                 second = texts;
                 return absl::OkStatus();
               }});
    ASSERT_EQ(MessageOf(pulse.Beat()), "");
    EXPECT_THAT(first, ElementsAre(fmt::format("{}:\n\"0", std::string(1, '\0')),
                                   fmt::format("{}:\n\"1", std::string(1, '\0'))));
    EXPECT_THAT(second, ElementsAre("", ""));
    pulse.Remove("first");
    first.clear();
    ASSERT_EQ(MessageOf(pulse.Beat()), "");
    EXPECT_THAT(first, IsEmpty());
  });
}

TEST(PulseTest, WhatAPartRefusesEndsTheTraining) {
  Pulse pulse(nullptr);
  pulse.Add({"part", [] { return ""; },
             [](const std::vector<std::string>&) { return absl::DataLossError("replicas differ."); }});
  EXPECT_EQ(MessageOf(pulse.AfterStep()), "replicas differ.");
}

// ---- Slow processes.

// Runs 3 processes. Process 1 computes `factor` times as long as the others, for `share` of a step's time. Returns
// the chief's reports.
std::vector<std::string> ReportsOf(double factor, double share, int pulses) {
  std::vector<std::string> reports;
  InDomainsOf(3, [&](Transport* end) {
    WaitedEnd waited(*end);
    double now = 0;
    Pulse pulse(&waited, {.name = fmt::format("worker {} on host-{}", end->domain(), end->domain()),
                          .clock = [&] { return now; },
                          .report = [&](std::string_view line) { reports.emplace_back(line); }});
    for (int step = 0; step < pulses; ++step) {
      now += 1;
      waited.waited += 1 - share * (end->domain() == 1 ? 1 : 1 / factor);
      ASSERT_EQ(MessageOf(pulse.AfterStep()), "");
    }
  });
  return reports;
}

TEST(PulseTest, NamesASlowProcess) {
  const std::string line =
      "worker 1 on host-1 computes 4.0 times as long as the others (1000.0 ms a step, the others 250.0 ms); every step "
      "waits for it.";
  EXPECT_THAT(ReportsOf(4, 1, 4), IsEmpty());
  EXPECT_THAT(ReportsOf(4, 1, 5), ElementsAre(line));
  EXPECT_THAT(ReportsOf(4, 1, 49), ElementsAre(line));
  EXPECT_THAT(ReportsOf(4, 1, 60), ElementsAre(line, line));
}

TEST(PulseTest, LeavesSmallDifferencesAlone) {
  EXPECT_THAT(ReportsOf(1.4, 1, 60), IsEmpty());
  EXPECT_THAT(ReportsOf(4, 0.1, 60), IsEmpty());  // steps are hardly longer because of it
}

// ---- How long a domain waits.

TEST(TimedTest, CountsWhatADomainWaits) {
  std::vector<std::unique_ptr<Transport>> ends = MakeLoopback(2);
  ends[0]->set_speed({.bandwidth = 5, .latency = 7});
  for (std::unique_ptr<Transport>& end : ends) end = MakeTimed(std::move(end));
  EXPECT_EQ(ends[0]->speed().bandwidth, 5);
  EXPECT_EQ(ends[0]->seconds_waited(), 0);
  EXPECT_EQ(ends[1]->domain(), 1);
  EXPECT_EQ(ends[1]->num_domains(), 2);
  auto play = [&](size_t d) {
    Transport& end = *ends[d];
    ASSERT_EQ(end.AllGather("text", fmt::format("{}", d)).value(), (std::vector<std::string>{"0", "1"}));
    const double waited = end.seconds_waited();
    EXPECT_GT(waited, 0);
    const auto other = static_cast<int64_t>(1 - d);
    auto op = end.Prepare({.where = "send", .sends = {{other, 1}}, .receives = {{other, 1}}}).value();
    std::byte mine{static_cast<unsigned char>(d + 1)}, theirs{};
    const std::byte* const from[] = {&mine};
    std::byte* const to[] = {&theirs};
    ASSERT_TRUE(op->Start(from, to).ok());
    ASSERT_TRUE(op->Wait().ok());
    ASSERT_TRUE(op->Run(from, to).ok());
    EXPECT_EQ(theirs, std::byte{static_cast<unsigned char>(2 - d)});
    EXPECT_GT(end.seconds_waited(), waited);
  };
  std::thread other([&] { play(1); });
  play(0);
  other.join();
  ends[0]->Abort(absl::CancelledError("enough."));
  EXPECT_EQ(MessageOf(ends[1]->AllGather("text", "").status()), "enough.");
}

}  // namespace
}  // namespace meshwork::pulse_test
