// Writers that are killed: the newest complete checkpoint stays.
#include <chrono>
#include <memory>
#include <random>
#include <thread>

#include "gmock/gmock.h"
#include "storage/checkpoints_of_child.h"
#include "storage/child_process.h"
#include "support/long_tests.h"
#include "support/temp_dir.h"

namespace meshwork::checkpoint_kill_test {
namespace {

using ::testing::Each;
using ::testing::SizeIs;
using ::testing::StartsWith;

class CheckpointKillTest : public TempDirTest {
 protected:
  // 200 kills with MESHWORK_LONG_TESTS=1.
  static int64_t Kills() { return LongTests() ? 200 : 10; }

  void Sleep(int64_t most_ms) {
    std::this_thread::sleep_for(std::chrono::microseconds(engine_() % static_cast<uint64_t>(1000 * most_ms)));
  }
  std::unique_ptr<ChildProcess> Start(const ChildWrites& writes) {
    return std::make_unique<ChildProcess>(writes.Arguments());
  }
  // The first moment at which kill i may come: before the child has even begun, when it has opened the folder, or when
  // it has written a checkpoint.
  static void AwaitSome(ChildProcess& child, int64_t i) {
    constexpr const char* kTexts[] = {"done", "open", "done", "open", ""};
    child.Await(kTexts[i % 5]);
  }
  // Expects that no step was lost since the last check, nor a step that a child reported as done.
  void CheckAfter(int64_t done) {
    const int64_t newest = CheckCheckpoints(Path("runs"));
    EXPECT_GE(newest, std::max(done, last_));
    last_ = newest;
  }
  // A writer that is not killed goes on, and clears away what the others left.
  void CheckThatItGoesOn(int64_t domains) {
    std::vector<std::unique_ptr<ChildProcess>> children;
    for (int64_t domain = 0; domain < domains; ++domain)
      children.push_back(Start({.dir = Path("runs"),
                                .job = "last",
                                .domain = domain,
                                .domains = domains,
                                .first = last_ + 1,
                                .count = 1}));
    for (const auto& child : children) {
      EXPECT_EQ(child->Wait(), 0);
      EXPECT_EQ(LastDone(child->Lines()), last_ + 1);
    }
    EXPECT_EQ(CheckCheckpoints(Path("runs")), last_ + 1);
    EXPECT_THAT(NamesBesideLock(Path("runs")), Each(StartsWith("step-")));
    EXPECT_THAT(NamesBesideLock(Path("runs")), SizeIs(2));
    EXPECT_GT(last_, 0) << "no checkpoint was ever complete";
  }

  std::mt19937_64 engine_{20};
  int64_t last_ = -1;  // the newest step
};

TEST_F(CheckpointKillTest, AWriterKilledAtAnyMomentLosesNothing) {
  for (int64_t i = 0; i < Kills(); ++i) {
    SCOPED_TRACE(fmt::format("kill {}", i));
    // Each step once, or twice, where the second write replaces the first.
    const auto child =
        Start({.dir = Path("runs"), .job = fmt::format("job{}", i), .first = last_ + 1, .each = 1 + i % 2});
    AwaitSome(*child, i);
    Sleep(60);
    child->Kill();
    EXPECT_EQ(child->Wait(), -SIGKILL);
    CheckAfter(LastDone(child->Lines()));
  }
  CheckThatItGoesOn(1);
}

// Kills either domain first, or both. Sometimes the second domain lives on beside the next writers.
TEST_F(CheckpointKillTest, OneOfTwoDomainsKilledAtAnyMomentLosesNothing) {
  std::unique_ptr<ChildProcess> survivor;
  for (int64_t i = 0; i < Kills(); ++i) {
    SCOPED_TRACE(fmt::format("kill {}", i));
    std::unique_ptr<ChildProcess> domains[2];
    for (int64_t domain = 0; domain < 2; ++domain)
      domains[domain] = Start({.dir = Path("runs"),
                               .job = fmt::format("job{}", i),
                               .domain = domain,
                               .domains = 2,
                               .first = last_ + 1,
                               .each = 1 + i % 2});
    AwaitSome(*domains[0], i);
    Sleep(60);
    survivor.reset();
    const bool is_first = engine_() % 2 == 0;
    domains[is_first ? 0 : 1]->Kill();
    Sleep(20);
    if (is_first && i % 3 == 0) survivor = std::move(domains[1]);
    for (const auto& domain : domains)
      if (domain != nullptr) domain->Kill();
    CheckAfter(LastDone(domains[0]->Lines()));
  }
  survivor.reset();
  CheckThatItGoesOn(2);
}

}  // namespace
}  // namespace meshwork::checkpoint_kill_test
