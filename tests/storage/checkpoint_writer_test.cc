// How checkpoints are written into a folder, kept, and removed.
#include "meshwork/storage/checkpoint_writer.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "gmock/gmock.h"
#include "meshwork/storage/checkpoint.h"
#include "storage/saved.h"
#include "support/checkpoint_steps.h"
#include "support/contents.h"
#include "support/flushes.h"
#include "support/forks.h"
#include "support/temp_dir.h"

namespace meshwork::checkpoint_writer_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

const std::vector<SavedVariable>& Small() {
  static const auto* const variables =
      new std::vector<SavedVariable>{{"b", {F32, {3}}, "{_}"}, {"w", {F32, {6, 2}}, "{a,_}"}};
  return *variables;
}

class CheckpointWriterTest : public TempDirTest {
 protected:
  std::unique_ptr<CheckpointWriter> Open(CheckpointWriterOptions options = {}) {
    options.dir = Path("runs");
    if (options.job.empty()) options.job = "job";
    return CheckpointWriter::Open(options).value();
  }
  static absl::Status Save(CheckpointWriter& writer, const CheckpointNote& note) {
    MESHWORK_RETURN_IF_ERROR(writer.Begin(note, StateOf("a=2", 1, 0, Small(), /*filled=*/true)));
    return writer.Wait();
  }
  std::vector<std::string> Names() const { return NamesIn(Path("runs")); }
  std::vector<int64_t> Steps() const { return StepsIn(Path("runs")); }
};

TEST_F(CheckpointWriterTest, TheNewestStay) {
  const auto writer = Open({.keep = 3});
  for (int64_t step : std::vector<int64_t>{1, 5, 20, 100, 1000000000001})
    ASSERT_EQ(MessageOf(Save(*writer, {.step = step})), "");
  EXPECT_THAT(Steps(), ElementsAre(1000000000001, 100, 20));
  EXPECT_THAT(Names(),
              UnorderedElementsAre("lock", "step-000000000020", "step-000000000100", "step-1000000000001"));
}

TEST_F(CheckpointWriterTest, TheBestStays) {
  for (bool lowest : {true, false}) {
    std::filesystem::remove_all(Path("runs"));
    const auto writer = Open({.keep = 2, .best_metric = "loss", .lowest_is_best = lowest});
    const double losses[] = {3, 1, 2, 5, 4, 2.5, 2.25};
    for (int64_t step = 0; step < 7; ++step)
      ASSERT_EQ(MessageOf(Save(*writer, {.step = step, .metrics = {{"loss", losses[step]}}})), "");
    EXPECT_THAT(Steps(), ElementsAre(6, 5, lowest ? 1 : 3));
  }
}

TEST_F(CheckpointWriterTest, ACheckpointOfTheSameStepIsReplaced) {
  const auto writer = Open();
  ASSERT_EQ(MessageOf(Save(*writer, {.step = 3, .facts = {{"which", "first"}}})), "");
  ASSERT_EQ(MessageOf(Save(*writer, {.step = 3, .facts = {{"which", "second"}}})), "");
  EXPECT_THAT(Names(), UnorderedElementsAre("lock", "step-000000000003"));
  EXPECT_EQ(Checkpoint::Open(Path("runs"))->index().facts.at("which"), "second");
}

// A checkpoint has the values that the variables held when Begin was called.
TEST_F(CheckpointWriterTest, TheProgramGoesOnWhileItIsWritten) {
  const auto writer = Open();
  auto state = StateOf("a=2", 1, 0, Small(), /*filled=*/true);
  ASSERT_EQ(MessageOf(writer->Begin({.step = 1}, state)), "");
  for (auto& [name, tensor] : state) std::memset(tensor.instance(0), 0, static_cast<size_t>(tensor.bytes()));
  ASSERT_EQ(MessageOf(writer->Begin({.step = 2}, state)), "");
  ASSERT_EQ(MessageOf(writer->Wait()), "");
  const Checkpoint first = Checkpoint::Open(Path("runs/step-000000000001")).value();
  EXPECT_EQ(std::memcmp(first.Read("b")->raw(), Numbered({F32, {3}}).raw(), 12), 0);
  const Checkpoint second = Checkpoint::Open(Path("runs/step-000000000002")).value();
  EXPECT_EQ(second.Read("b")->values<float>()[1], 0.0F);
}

TEST_F(CheckpointWriterTest, AFolderIsOneJobs) {
  const auto writer = Open();
  const absl::Status second = CheckpointWriter::Open({.dir = Path("runs"), .job = "other"}).status();
  EXPECT_EQ(second.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(MessageOf(second),
              HasSubstr(fmt::format("another job writes its checkpoints there: process {} on ", getpid())));
}

TEST_F(CheckpointWriterTest, WhatKilledWritersLeaveIsClearedAwayAndNeverTakenForACheckpoint) {
  ASSERT_EQ(MessageOf(Save(*Open(), {.step = 1})), "");
  for (const char* name : {"partial-x-3", "removed-step-000000000009"}) {
    std::filesystem::copy(Path("runs/step-000000000001"), Path(std::string("runs/") + name));
    EXPECT_THAT(Steps(), ElementsAre(1));
  }
  std::filesystem::create_directory(Path("runs/step-000000000002"));  // half removed by somebody else
  EXPECT_EQ(FindCheckpoint(Path("runs")).value(), Path("runs/step-000000000001"));
  Open();
  EXPECT_THAT(Names(), UnorderedElementsAre("lock", "step-000000000001", "step-000000000002"));
}

// In the child of a fork the writer, its thread and its lock are the parent's.
TEST_F(CheckpointWriterTest, AForkedProcessWritesNothing) {
  if (!kMayFork) GTEST_SKIP();
  auto writer = Open();
  const auto state = StateOf("a=2", 1, 0, Small(), /*filled=*/true);
  std::atomic<bool> may_flush = false;
  {
    const WatchedFlushes held([&](const std::string&) {
      while (!may_flush) std::this_thread::yield();
      return 0;
    });
    ASSERT_EQ(MessageOf(writer->Begin({.step = 1}, state)), "");
    for (const absl::Status& status : {StatusOfChild([&] { return writer->Wait(); }),
                                       StatusOfChild([&] { return writer->Begin({.step = 2}, state); })}) {
      EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
      EXPECT_THAT(MessageOf(status), StartsWith("CheckpointWriter: it is the parent's, "));
    }
    const absl::Status other = StatusOfChild([&] {
      writer.reset();
      return CheckpointWriter::Open({.dir = Path("runs"), .job = "other"}).status();
    });
    EXPECT_EQ(other.code(), absl::StatusCode::kAlreadyExists) << MessageOf(other);
    may_flush = true;
    ASSERT_EQ(MessageOf(writer->Wait()), "");
  }
  EXPECT_THAT(Steps(), ElementsAre(1));
}

// Somebody else can have the folder once the job has ended, though a child of it lives on.
TEST_F(CheckpointWriterTest, AForkedProcessDoesNotKeepTheLock) {
  if (!kMayFork) GTEST_SKIP();
  auto writer = Open();
  int ends[2], born[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(pipe(born), 0);
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    close(ends[1]);
    char end;
    _exit(write(born[1], "!", 1) == 1 && read(ends[0], &end, 1) == 0 ? 0 : 1);
  }
  char byte;
  ASSERT_EQ(read(born[0], &byte, 1), 1);
  writer.reset();
  EXPECT_EQ(MessageOf(Save(*Open(), {.step = 1})), "");
  for (int fd : {ends[0], ends[1], born[0], born[1]}) close(fd);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

// Each flush of a checkpoint fails in turn: earlier checkpoints stay, and the next one is written.
TEST_F(CheckpointWriterTest, AFailedWriteLosesNothing) {
  int flushes = 0;
  {
    const auto writer = Open();
    const WatchedFlushes counted([&](const std::string&) { return ++flushes, 0; });
    ASSERT_EQ(MessageOf(Save(*writer, {.step = 1})), "");
  }
  EXPECT_GE(flushes, 5);  // the shard, the index, the folder twice, the folder of checkpoints
  for (int fails = 1; fails <= flushes; ++fails) {
    const auto writer = Open();
    {
      int seen = 0;
      const WatchedFlushes failing([&](const std::string&) { return ++seen == fails ? EIO : 0; });
      EXPECT_FALSE(Save(*writer, {.step = 2}).ok()) << fails;
    }
    EXPECT_EQ(MessageOf(Checkpoint::Open(Path("runs/step-000000000001"))->Verify()), "");
    const std::vector<FoundCheckpoint> all = ListCheckpoints(Path("runs")).value();
    for (const FoundCheckpoint& found : all)
      EXPECT_EQ(MessageOf(Checkpoint::Open(found.path)->Verify()), "") << fails;
    EXPECT_EQ(MessageOf(Save(*writer, {.step = 3})), "");
    ASSERT_EQ(MessageOf(RemoveCheckpoint(Path("runs/step-000000000003"))), "");
    RemoveCheckpoint(Path("runs/step-000000000002")).IgnoreError();
  }
}

TEST_F(CheckpointWriterTest, ADomainThatFailsOrDoesNotComeIsNamed) {
  const auto first =
      Open({.domain = 0, .num_domains = 2, .job = "a", .deadline = std::chrono::milliseconds(50)});
  ASSERT_EQ(MessageOf(first->Begin({.step = 1}, StateOf("a=2", 2, 0, Small(), true))), "");
  EXPECT_THAT(MessageOf(first->Wait()),
              HasSubstr("Checkpoint of step 1: domain 1 has not written its shard within 50 ms; "));
  EXPECT_THAT(Names(), ElementsAre("lock"));
}

// A domain may be done before domain 0 has even opened the folder.
TEST_F(CheckpointWriterTest, WhatAnotherDomainHasWrittenIsNoLeftover) {
  const auto second = Open({.domain = 1, .num_domains = 2});
  ASSERT_EQ(MessageOf(second->Begin({.step = 1}, StateOf("a=2", 2, 1, Small(), true))), "");
  ASSERT_EQ(MessageOf(second->Wait()), "");
  ASSERT_EQ(MessageOf(second->Begin({.step = 2}, StateOf("a=2", 2, 1, Small(), true))), "");
  ASSERT_EQ(MessageOf(second->Wait()), "");
  const auto first = Open({.domain = 0, .num_domains = 2, .deadline = std::chrono::seconds(5)});
  for (int64_t step : {1, 2}) {
    ASSERT_EQ(MessageOf(first->Begin({.step = step}, StateOf("a=2", 2, 0, Small(), true))), "");
    ASSERT_EQ(MessageOf(first->Wait()), "");
  }
  EXPECT_THAT(Steps(), ElementsAre(2, 1));
}

// Begin waits for the previous write and must not disturb it.
TEST_F(CheckpointWriterTest, ANextCheckpointDoesNotDisturbTheOneBefore) {
  const auto writer = Open();
  const WatchedFlushes slow([&](const std::string&) { return usleep(5000), 0; });
  for (int64_t step = 1; step <= 4; ++step)
    ASSERT_EQ(MessageOf(writer->Begin({.step = step}, StateOf("a=2", 1, 0, Small(), true))), "");
  ASSERT_EQ(MessageOf(writer->Wait()), "");
  EXPECT_THAT(Steps(), ElementsAre(4, 3, 2, 1));
  EXPECT_THAT(Names(), UnorderedElementsAre("lock", CheckpointName(1), CheckpointName(2), CheckpointName(3),
                                            CheckpointName(4)));
}

// Domain 0 does not wait for a domain that has not begun because its write before failed.
TEST_F(CheckpointWriterTest, ADomainThatDoesNotBeginSaysSo) {
  const auto first = Open({.domain = 0, .num_domains = 2, .deadline = std::chrono::minutes(1)});
  const auto second = Open({.domain = 1, .num_domains = 2});
  const auto begin = [&](CheckpointWriter& writer, int64_t domain, int64_t step) {
    return writer.Begin({.step = step}, StateOf("a=2", 2, domain, Small(), true));
  };
  {
    const WatchedFlushes failing(
        [&](const std::string& path) { return path.find("shard-00001-of") == std::string::npos ? 0 : EIO; });
    ASSERT_EQ(MessageOf(begin(*first, 0, 1)), "");
    ASSERT_EQ(MessageOf(begin(*second, 1, 1)), "");
    EXPECT_THAT(MessageOf(first->Wait()),
                AllOf(HasSubstr("Checkpoint of step 1: domain 1: "), HasSubstr("Input/output error")));
    // The error that Wait would return.
    EXPECT_THAT(MessageOf(begin(*second, 1, 2)), HasSubstr("Input/output error"));
  }
  ASSERT_EQ(MessageOf(begin(*first, 0, 2)), "");
  EXPECT_THAT(MessageOf(first->Wait()), HasSubstr("Checkpoint of step 2: domain 1: "));
  ASSERT_EQ(MessageOf(begin(*first, 0, 3)), "");
  ASSERT_EQ(MessageOf(begin(*second, 1, 3)), "");
  EXPECT_EQ(MessageOf(first->Wait()), "");
  EXPECT_EQ(MessageOf(second->Wait()), "");
  EXPECT_THAT(Names(), UnorderedElementsAre("lock", CheckpointName(3)));
}

// Only damaged checkpoints are removed: disk errors may pass, a newer library can read newer formats, and one without
// an index may be somebody else's.
TEST_F(CheckpointWriterTest, WhatCannotBeReadNowIsNotRemoved) {
  const auto writer = Open({.keep = 1});
  for (int64_t step = 1; step <= 4; ++step) {
    ASSERT_EQ(MessageOf(Save(*writer, {.step = 10 * step})), "");
    std::filesystem::copy(Path("runs/" + CheckpointName(10 * step)), Path(fmt::format("copy{}", step)));
  }
  for (int64_t step : {1, 2, 3, 4})
    std::filesystem::rename(Path(fmt::format("copy{}", step)), Path("runs/" + CheckpointName(step)));
  std::ofstream(Path("runs/" + CheckpointName(1) + "/index.json")) << R"({"format":3,"meshwork":"9.0.0"})";
  std::filesystem::remove(Path("runs/" + CheckpointName(2) + "/index.json"));
  std::filesystem::create_symlink("index.json", Path("runs/" + CheckpointName(2) + "/index.json"));
  std::filesystem::resize_file(Path("runs/" + CheckpointName(3) + "/" + ShardName(0, 1)), 10);
  std::filesystem::remove(Path("runs/" + CheckpointName(4) + "/index.json"));
  ASSERT_EQ(MessageOf(Save(*writer, {.step = 50})), "");
  EXPECT_THAT(Names(), UnorderedElementsAre("lock", CheckpointName(1), CheckpointName(2), CheckpointName(4),
                                            CheckpointName(50)));
}

// While there are fewer good ones than stay, a damaged one is not removed either.
TEST_F(CheckpointWriterTest, WhatIsDamagedGoesWithWhatIsOld) {
  const auto writer = Open({.keep = 2});
  ASSERT_EQ(MessageOf(Save(*writer, {.step = 1})), "");
  std::filesystem::resize_file(Path("runs/" + CheckpointName(1) + "/" + ShardName(0, 1)), 10);
  ASSERT_EQ(MessageOf(Save(*writer, {.step = 2})), "");
  EXPECT_THAT(Names(), UnorderedElementsAre("lock", CheckpointName(1), CheckpointName(2)));
  ASSERT_EQ(MessageOf(Save(*writer, {.step = 3})), "");
  EXPECT_THAT(Names(), UnorderedElementsAre("lock", CheckpointName(2), CheckpointName(3)));
}

TEST_F(CheckpointWriterTest, ALockThatWasRemovedIsTakenAgainUnlessAnotherJobHasIt) {
  const auto writer = Open({.job = "a"});
  ASSERT_EQ(MessageOf(Save(*writer, {.step = 1})), "");
  std::filesystem::remove_all(Path("runs"));
  ASSERT_EQ(MessageOf(Save(*writer, {.step = 2})), "");
  EXPECT_FALSE(CheckpointWriter::Open({.dir = Path("runs"), .job = "b"}).ok());
  std::filesystem::remove(Path("runs/lock"));
  const auto other = Open({.job = "b"});
  EXPECT_THAT(MessageOf(Save(*writer, {.step = 3})), HasSubstr("another job writes its checkpoints there"));
  ASSERT_EQ(MessageOf(Save(*other, {.step = 4})), "");
  EXPECT_THAT(Steps(), ElementsAre(4, 2));
}

}  // namespace
}  // namespace meshwork::checkpoint_writer_test
