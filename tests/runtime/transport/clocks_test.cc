// Differences between the clocks of domains. Started by mpirun or examples/multi_worker/launch, each process plays its
// own domain.
#include "meshwork/runtime/transport/clocks.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "support/ends.h"

namespace meshwork::clocks_test {
namespace {

using ::testing::HasSubstr;

using Clock = std::function<int64_t()>;
using Offsets =
    std::map<int64_t, absl::StatusOr<ClockOffset>>;  // by domain, of those that this process plays

constexpr int64_t kSecond = 1'000'000'000;

Offsets Align(Ends& ends, const std::function<Clock(int64_t domain)>& clock_of) {
  Offsets offsets;
  for (const auto& end : ends)
    if (end != nullptr) offsets.emplace(end->domain(), absl::UnknownError("not yet"));
  std::vector<std::thread> threads;
  for (auto& [domain, offset] : offsets)
    threads.emplace_back([&end = *ends[static_cast<size_t>(domain)], &offset = offset,
                          clock = clock_of(domain)] { offset = AlignClocks(end, clock); });
  for (std::thread& thread : threads) thread.join();
  return offsets;
}

// The processes of one host share a clock.
TEST(ClocksTransportTest, ClocksAreFoundWithinTheError) {
  const std::vector<int64_t> ahead = {0, 5 * kSecond, -7 * kSecond - 123'456'789};
  for (int64_t domains : {1, 2, 3}) {
    Ends ends = MakeEnds(domains, std::chrono::minutes(2));
    const int64_t before = SteadyNanoseconds();
    const Offsets offsets = Align(ends, [&](int64_t domain) {
      return [more = ahead[static_cast<size_t>(domain)]] { return SteadyNanoseconds() + more; };
    });
    const int64_t after = SteadyNanoseconds();
    for (const auto& [domain, offset] : offsets) {
      ASSERT_TRUE(offset.ok()) << offset.status();
      const int64_t more = ahead[static_cast<size_t>(domain)];
      EXPECT_LE(std::abs(offset->offset_ns + more), offset->error_ns)
          << "domain " << domain << " of " << domains;
      EXPECT_GE(offset->at_ns - more, before);
      EXPECT_LE(offset->at_ns - more, after);
      EXPECT_LE(offset->error_ns, after - before);
      EXPECT_TRUE(domain > 0 || offset->error_ns == 0);
    }
  }
}

// The domain's reading is assumed to be in the middle of the round; the round that took the least time counts.
TEST(ClocksTransportTest, TheMiddleOfTheSoonestRoundCounts) {
  if (IsLaunched()) GTEST_SKIP() << "the domains share a clock";
  Ends ends = MakeEnds(2, std::chrono::minutes(2));
  // The ends read the clock in turn, because they wait for each other: domain 1, domain 0, domain 1.
  auto readings = std::make_shared<std::atomic<int64_t>>(0);
  const Offsets offsets = Align(ends, [&](int64_t domain) -> Clock {
    return [=, first = true]() mutable -> int64_t {
      if (std::exchange(first, false)) return -1;  // when it begins
      const int64_t reading = (*readings)++, round = reading / 3;
      // The fourth round is the fastest.
      const int64_t now = round * 100 * kSecond + reading % 3 * (round == 3 ? kSecond : 9 * kSecond);
      return domain == 1 ? now + 50 * kSecond : now;
    };
  });
  ASSERT_TRUE(offsets.at(0).ok() && offsets.at(1).ok());
  EXPECT_EQ(*offsets.at(1),
            (ClockOffset{.at_ns = 351 * kSecond, .offset_ns = -50 * kSecond, .error_ns = kSecond}));
  EXPECT_EQ(*offsets.at(0), (ClockOffset{.at_ns = -1}));
}

TEST(ClocksTransportTest, OperationsAfterwardsAreTheSameInAllDomains) {
  Ends ends = MakeEnds(3, std::chrono::minutes(2));
  std::vector<std::thread> threads;
  for (const auto& end : ends) {
    if (end == nullptr) continue;
    threads.emplace_back([&end = *end] {
      for (int turn = 0; turn < 2; ++turn) {
        EXPECT_TRUE(AlignClocks(end).ok());
        EXPECT_TRUE(Agree(end, "the program", std::string("9f2c")).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(ClocksTransportTest, ADomainThatDoesNotComeIsNamed) {
  if (IsLaunched()) GTEST_SKIP() << "one domain is enough";
  Ends ends = MakeLoopback(3, {.deadline = std::chrono::milliseconds(20)});
  const absl::Status status = AlignClocks(*ends[2]).status();
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("the clock of domain 2: domain 0 did not come within 20 ms; domain 2 waits."));
}

TEST(ClocksTest, OffsetsBetweenTwoMeasurementsGoEvenly) {
  const ClockOffset first{.at_ns = 1000, .offset_ns = kSecond, .error_ns = 5};
  const ClockOffset last{.at_ns = 5000, .offset_ns = kSecond - 40, .error_ns = 7};
  for (const auto& [at, offset] : std::map<int64_t, int64_t>{
           {0, 0}, {1000, 0}, {1100, -1}, {3000, -20}, {4900, -39}, {5000, -40}, {9000, -40}})
    EXPECT_EQ(OffsetAt(at, first, last), kSecond + offset) << at;
  EXPECT_EQ(OffsetAt(1000, first, first), kSecond);
}

// A clock that gains 50 µs per second, measured twice within a minute.
TEST(ClocksTest, BetweenTwoMeasurementsTheLargerErrorHolds) {
  const auto truth = [](int64_t at) { return 3 * kSecond - at / 20'000; };
  for (const int64_t early : {-20'000, -100, 0, 20'000}) {
    for (const int64_t late : {-30'000, 0, 30'000}) {
      const ClockOffset first{kSecond, truth(kSecond) + early, std::abs(early)};
      const ClockOffset last{61 * kSecond, truth(61 * kSecond) + late, std::abs(late)};
      for (int64_t at = first.at_ns; at <= last.at_ns; at += 3 * kSecond)
        EXPECT_LE(std::abs(OffsetAt(at, first, last) - truth(at)), std::max(first.error_ns, last.error_ns))
            << early << " " << late << " " << at;
    }
  }
}

}  // namespace
}  // namespace meshwork::clocks_test
