// CheckpointManager: when it writes checkpoints, where training resumes, and what happens if a checkpoint fails.
#include "meshwork/train/fit/checkpoints.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "support/checkpoint_steps.h"
#include "support/full_disk.h"
#include "support/temp_dir.h"
#include "train/saved_training.h"

namespace meshwork::checkpoints_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

class CheckpointsTest : public TempDirTest {
 protected:
  // A training in one domain, with a clock that the test sets.
  struct Training {
    Training(Transport* end, const std::string& mesh, CheckpointOptions options)
        : session(Session::Create(SavedTraining(mesh), SavedOptions(end)).value()),
          pulse(end, {.clock = [this] { return now; }}) {
      options.clock = [this] { return now; };
      options.report = [this](std::string_view line) { reports.emplace_back(line); };
      absl::StatusOr<std::unique_ptr<CheckpointManager>> opened =
          CheckpointManager::Open(options, session, pulse);
      status = opened.status();
      if (opened.ok()) checkpoints = *std::move(opened);
    }

    void Restore() {
      const absl::StatusOr<std::optional<CheckpointNote>> note = checkpoints->Restore();
      ASSERT_TRUE(note.ok()) << note.status();
      if (note->has_value()) step = (*note)->step;
    }
    CheckpointNote Note() const { return {.step = step, .facts = {{"batch", fmt::format("{}", step % 4)}}}; }
    // Trains to step `end`, `seconds` per step. Returns the steps after which checkpoints began.
    std::vector<int64_t> To(int64_t end, double seconds = 1) {
      std::vector<int64_t> begun;
      while (step < end) {
        losses.push_back(TrainSteps(session, step, step + 1).at(0));
        ++step;
        now += seconds;
        EXPECT_EQ(MessageOf(pulse.AfterStep()), "");
        const absl::StatusOr<bool> began = checkpoints->AfterStep(step, [&] { return Note(); });
        EXPECT_TRUE(began.ok()) << began.status();
        if (began.value_or(false)) begun.push_back(step);
      }
      return begun;
    }

    double now = 1000;
    Session session;
    Pulse pulse;
    std::vector<std::string> reports;
    absl::Status status;
    std::unique_ptr<CheckpointManager> checkpoints;
    int64_t step = 0;
    std::vector<double> losses;
  };

  CheckpointOptions Options() const { return {.dir = Path("runs"), .background = false}; }
  std::vector<int64_t> Steps() const { return StepsIn(Path("runs")); }
};

TEST_F(CheckpointsTest, ComeBySteps) {
  CheckpointOptions options = Options();
  options.steps = 3;
  options.keep = 2;
  Training training(nullptr, "batch=2", options);
  ASSERT_EQ(MessageOf(training.status), "");
  EXPECT_THAT(training.To(11), ElementsAre(3, 6, 9));
  EXPECT_EQ(training.checkpoints->last_step(), 9);
  ASSERT_EQ(MessageOf(training.checkpoints->Finish(training.Note())), "");
  EXPECT_THAT(Steps(), ElementsAre(11, 9));
  EXPECT_EQ(training.checkpoints->last_step(), 11);
  EXPECT_THAT(training.reports, IsEmpty());
}

TEST_F(CheckpointsTest, ComeBySeconds) {
  CheckpointOptions options = Options();
  options.seconds = 10;
  Training training(nullptr, "batch=2", options);
  EXPECT_THAT(training.To(25), ElementsAre(10, 20));
  ASSERT_EQ(MessageOf(training.checkpoints->Finish(training.Note())), "");
  ASSERT_EQ(MessageOf(training.checkpoints->Finish(training.Note())), "");  // the checkpoint is there already
  EXPECT_THAT(Steps(), ElementsAre(25, 20, 10));
}

// The chief's clock decides: checkpoints begin after the same step in all domains, in the background or not.
TEST_F(CheckpointsTest, ComeInAllDomainsAlike) {
  for (const bool background : {true, false}) {
    std::filesystem::remove_all(Path("runs"));
    std::vector<std::vector<int64_t>> begun(3);
    InDomainsOf(3, [&](Transport* end) {
      CheckpointOptions options = Options();
      options.background = background;
      options.seconds = 8;
      Training training(end, "batch=3,model=2", options);
      ASSERT_EQ(MessageOf(training.status), "");
      training.now += 1e6 * static_cast<double>(end->domain());  // clocks need not agree
      begun[static_cast<size_t>(end->domain())] = training.To(40, end->domain() == 0 ? 1 : 7);
      ASSERT_EQ(MessageOf(training.checkpoints->Finish(training.Note())), "");
      EXPECT_EQ(training.checkpoints->last_step(), 40);
      EXPECT_THAT(training.reports, IsEmpty());
    });
    ASSERT_THAT(begun[0], testing::Not(IsEmpty()));
    EXPECT_EQ(begun[0][0], 8);
    if (!background) {
      EXPECT_THAT(begun[0], ElementsAre(8, 16, 24, 32, 40));
    }
    EXPECT_THAT(begun, testing::Each(begun[0]));
    EXPECT_EQ(Steps()[0], 40);
  }
}

TEST_F(CheckpointsTest, AClockThatJumpsDoesNoHarm) {
  CheckpointOptions options = Options();
  options.seconds = 10;
  Training training(nullptr, "batch=1", options);
  EXPECT_THAT(training.To(12), ElementsAre(10));
  training.now = -1e9;
  EXPECT_THAT(training.To(300), SizeIs(testing::Le(1u)));  // none is due for long, and training goes on
  training.now = 1e15;
  EXPECT_THAT(training.To(1000), testing::Not(IsEmpty()));
  ASSERT_EQ(MessageOf(training.checkpoints->Finish(training.Note())), "");
  EXPECT_THAT(training.reports, IsEmpty());
}

TEST_F(CheckpointsTest, TheBestStays) {
  CheckpointOptions options = Options();
  options.steps = 1;
  options.keep = 1;
  options.best_metric = "loss";
  Training training(nullptr, "batch=1", options);
  for (double loss : {3.0, 1.0, 2.0, 4.0}) {
    ++training.step;
    ASSERT_TRUE(*training.checkpoints->AfterStep(training.step, [&] {
      return CheckpointNote{.step = training.step, .metrics = {{"loss", loss}}};
    }));
  }
  EXPECT_THAT(Steps(), ElementsAre(4, 2));
}

// ---- Resuming.

TEST_F(CheckpointsTest, TrainingGoesOnAsIfThereHadBeenNoStop) {
  for (const int64_t domains : {1, 3}) {
    std::filesystem::remove_all(Path("runs"));
    std::vector<double> losses;
    std::map<std::string, std::vector<double>> expected;
    InDomainsOf(domains, [&](Transport* end) {
      Session session = Session::Create(SavedTraining("batch=3,model=2"), SavedOptions(end)).value();
      const std::vector<double> here = TrainSteps(session, 0, 12);
      const auto values = ValuesOf(session);
      if (end == nullptr || end->domain() == 0) losses = here, expected = values;
    });
    std::vector<double> found;
    for (const int64_t stop : {5, 9, 12}) {
      InDomainsOf(domains, [&](Transport* end) {
        CheckpointOptions options = Options();
        options.background = true;
        options.steps = 4;
        options.resume = true;
        Training training(end, "batch=3,model=2", options);
        ASSERT_EQ(MessageOf(training.status), "");
        training.Restore();
        training.To(stop);
        ASSERT_EQ(MessageOf(training.checkpoints->Finish(training.Note())), "");
        const auto values = ValuesOf(training.session);
        if (end != nullptr && end->domain() != 0) return;
        found.insert(found.end(), training.losses.begin(), training.losses.end());
        if (stop == 12) {
          EXPECT_EQ(values, expected);
        }
      });
    }
    EXPECT_EQ(found, losses);
  }
}

TEST_F(CheckpointsTest, ThereMayBeNothingToGoOnFrom) {
  CheckpointOptions options = Options();
  options.resume = true;
  InDomainsOf(2, [&](Transport* end) {
    Training training(end, "batch=2", options);
    ASSERT_EQ(MessageOf(training.status), "");
    const absl::StatusOr<std::optional<CheckpointNote>> note = training.checkpoints->Restore();
    ASSERT_TRUE(note.ok()) << note.status();
    EXPECT_FALSE(note->has_value());
    EXPECT_EQ(training.checkpoints->last_step(), -1);
  });
}

// If nothing is left to train, the restored checkpoint is not written again.
TEST_F(CheckpointsTest, WhatWasRestoredIsNotWrittenAgain) {
  CheckpointOptions options = Options();
  {
    Training training(nullptr, "batch=2", options);
    training.To(3);
    ASSERT_EQ(MessageOf(training.checkpoints->Finish(training.Note())), "");
  }
  options.resume = true;
  const auto written = std::filesystem::last_write_time(Path("runs/" + CheckpointName(3)));
  Training training(nullptr, "batch=2", options);
  training.Restore();
  EXPECT_EQ(training.step, 3);
  ASSERT_EQ(MessageOf(training.checkpoints->Finish(training.Note())), "");
  EXPECT_EQ(std::filesystem::last_write_time(Path("runs/" + CheckpointName(3))), written);
}

// ---- Errors before training.

TEST_F(CheckpointsTest, AFolderOfAnotherTrainingIsRefused) {
  {
    Training training(nullptr, "batch=2", Options());
    training.To(3);
    ASSERT_EQ(MessageOf(training.checkpoints->Finish(training.Note())), "");
  }
  std::vector<std::string> errors(2);
  InDomainsOf(2, [&](Transport* end) {
    errors[static_cast<size_t>(end->domain())] = MessageOf(Training(end, "batch=2", Options()).status);
  });
  EXPECT_THAT(errors[0],
              HasSubstr("has 1 checkpoint of a training, the newest of step 3; go on from it (`resume`;"));
  EXPECT_THAT(errors[1], HasSubstr("--resume"));
}

// A full disk is not reported as wrong input, whatever the system's error code; a mistake in the note still is.
TEST_F(CheckpointsTest, AnErrorAtTheLastOneIsNoWrongInput) {
  CheckpointOptions options = Options();
  Training training(nullptr, "batch=2", options);
  training.To(2);
  {
    const FullDisk full(16);
    const absl::Status status = training.checkpoints->Finish(training.Note());
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_THAT(MessageOf(status), HasSubstr("File too large"));
  }
  CheckpointNote note = training.Note();
  note.metrics["loss"] = std::nan("");
  EXPECT_EQ(training.checkpoints->Finish(note).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(MessageOf(training.checkpoints->Finish(training.Note())), "");
}

TEST_F(CheckpointsTest, ASecondJobInAFolderIsRefused) {
  CheckpointOptions options = Options();
  auto first = std::make_unique<Training>(nullptr, "batch=2", options);
  ASSERT_EQ(MessageOf(first->status), "");
  EXPECT_THAT(MessageOf(Training(nullptr, "batch=2", options).status),
              HasSubstr("another job writes its checkpoints there"));
  first->To(2);  // the first is not disturbed
  ASSERT_EQ(MessageOf(first->checkpoints->Finish(first->Note())), "");
  first = nullptr;
  options.resume = true;
  EXPECT_EQ(MessageOf(Training(nullptr, "batch=2", options).status), "");
}

// A training that has lost a process resumes in its folder, though that process may only stand still and hold it.
TEST_F(CheckpointsTest, ATrainingThatHasLostAProcessKeepsItsFolder) {
  CheckpointOptions options = Options();
  Training stopped(nullptr, "batch=2", options);
  stopped.To(2);
  ASSERT_EQ(MessageOf(stopped.checkpoints->Finish(stopped.Note())), "");
  options.generation = 1;
  Training other(nullptr, "batch=2", options);
  ASSERT_EQ(MessageOf(other.status), "");
  other.Restore();
  EXPECT_EQ(other.step, 2);
  other.To(4);
  ASSERT_EQ(MessageOf(other.checkpoints->Finish(other.Note())), "");
  EXPECT_THAT(Steps(), ElementsAre(4, 2));
}

TEST_F(CheckpointsTest, DomainsThatDifferAreRefused) {
  std::vector<std::string> errors(2);
  InDomainsOf(2, [&](Transport* end) {
    CheckpointOptions options = Options();
    if (end->domain() == 1) options.seconds = 60;
    errors[static_cast<size_t>(end->domain())] = MessageOf(Training(end, "batch=2", options).status);
  });
  EXPECT_THAT(errors[0], HasSubstr("every 60 s"));
  EXPECT_EQ(errors[0], errors[1]);
}

TEST_F(CheckpointsTest, DomainsThatSeeDifferentFoldersAreRefused) {
  std::vector<std::string> errors(2);
  InDomainsOf(2, [&](Transport* end) {
    CheckpointOptions options = Options();
    if (end->domain() == 1) options.dir = Path("elsewhere");
    errors[static_cast<size_t>(end->domain())] = MessageOf(Training(end, "batch=2", options).status);
  });
  EXPECT_THAT(errors[0], HasSubstr("domain 1 failed: " + Path("elsewhere") +
                                   ": process 0 has written into this folder"));
  EXPECT_THAT(errors[1], HasSubstr("all processes must see one folder."));
  EXPECT_THAT(ListCheckpoints(Path("runs")).value(), IsEmpty());
}

// ---- Failures while training.

// Blocks a folder: a file takes its place, so that nothing can be made in it.
class Blocked {
 public:
  explicit Blocked(const std::string& dir) : dir_(dir), aside_(dir + "-aside") {
    std::filesystem::rename(dir_, aside_);
    std::ofstream(dir_) << "in the way";
  }
  ~Blocked() {
    std::filesystem::remove(dir_);
    std::filesystem::rename(aside_, dir_);
  }

 private:
  const std::string dir_, aside_;
};

TEST_F(CheckpointsTest, TrainingGoesOnWhenACheckpointFails) {
  for (const int64_t domains : {1, 2}) {
    std::filesystem::remove_all(Path("runs"));
    std::optional<Blocked> blocked;
    InDomainsOf(domains, [&](Transport* end) {
      CheckpointOptions options = Options();
      options.steps = 2;
      Training training(end, "batch=2", options);
      const bool is_chief = end == nullptr || end->domain() == 0;
      auto meet = [&] {  // waits until all domains are here
        if (end != nullptr) {
          ASSERT_TRUE(end->AllGather("the test", "").ok());
        }
      };
      training.To(3);
      meet();
      if (is_chief) blocked.emplace(Path("runs"));
      meet();
      training.To(5);
      EXPECT_THAT(training.reports, SizeIs(1));
      training.To(7);
      EXPECT_THAT(training.reports, SizeIs(2));
      if (is_chief) {
        EXPECT_THAT(training.reports[0], StartsWith("Checkpoint of step 4: "));
        EXPECT_THAT(training.reports[1], StartsWith("Checkpoint of step 6: "));
        EXPECT_THAT(training.reports[1],
                    HasSubstr(fmt::format(
                        "The last checkpoint is of step 2; the training goes on, and tries the next "
                        "one. See that {} can be written and has room.",
                        Path("runs"))));
      }
      meet();
      if (is_chief) blocked.reset();
      meet();
      training.To(9);
      EXPECT_THAT(training.reports, SizeIs(2));
      ASSERT_EQ(MessageOf(training.checkpoints->Finish(training.Note())), "");
      EXPECT_EQ(training.losses.size(), 9u);
    });
    EXPECT_THAT(Steps(), ElementsAre(9, 8, 2));
  }
}

// A failure of the last checkpoint is an error: all domains report it.
TEST_F(CheckpointsTest, ALastCheckpointThatFailsIsAnError) {
  std::optional<Blocked> blocked;
  std::vector<std::string> errors(2);
  InDomainsOf(2, [&](Transport* end) {
    Training training(end, "batch=2", Options());
    training.To(3);
    ASSERT_TRUE(end->AllGather("the test", "").ok());
    if (end->domain() == 0) blocked.emplace(Path("runs"));
    ASSERT_TRUE(end->AllGather("the test", "").ok());
    errors[static_cast<size_t>(end->domain())] = MessageOf(training.checkpoints->Finish(training.Note()));
  });
  EXPECT_THAT(errors[0], HasSubstr("Checkpoint of step 3: "));
  EXPECT_THAT(errors[1], HasSubstr(Path("runs")));
}

// A lost domain never writes its shard. The domains that remain do not wait long for it.
TEST_F(CheckpointsTest, AManagerThatEndsByAnErrorDoesNotWaitForOthers) {
  CheckpointOptions options = Options();
  options.background = true;
  options.steps = 2;
  InDomainsOf(2, [&](Transport* end) {
    auto training = std::make_unique<Training>(end, "batch=2", options);
    ASSERT_EQ(MessageOf(training->status), "");
    training->To(1);
    if (end->domain() == 1) return;  // is lost: writes no shard
    // Domain 0 begins a checkpoint alone.
    ASSERT_TRUE(*training->checkpoints->AfterStep(2, [&] { return CheckpointNote{.step = 2}; }));
    training = nullptr;  // within the deadline of this test, not of CheckpointWriter
  });
  EXPECT_THAT(Steps(), IsEmpty());
}

}  // namespace
}  // namespace meshwork::checkpoints_test
