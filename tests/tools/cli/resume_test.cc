// The flags by which a training writes checkpoints and goes on from them, as a shell sees them.
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/storage/checkpoint_folder.h"
#include "support/checkpoint_steps.h"
#include "tools/cli/mlp_mnist.h"

namespace meshwork::resume_test {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// 28 images in batches of 8: 4 steps an epoch, of which the last one is short.
class ResumeTest : public MlpMnistTest {
 protected:
  Finished TrainOn(const std::string& mesh, std::vector<std::string> args,
                   const std::function<void(pid_t)>& meanwhile = {}) const {
    args.insert(args.begin(), {"--data-dir", data(), "--batch-size", "8", "--mesh", mesh, "--workers", "1"});
    return RunProcess(MLP_MNIST, args, Path("process"), {}, meanwhile);
  }
  // Runs TrainOn with a folder of checkpoints and --resume.
  Finished Resume(const std::string& mesh, std::vector<std::string> args,
                  const std::function<void(pid_t)>& meanwhile = {}) const {
    args.insert(args.begin(), {"--checkpoint-dir", Path("runs"), "--resume"});
    return TrainOn(mesh, args, meanwhile);
  }
  std::vector<int64_t> Steps() const { return StepsIn(Path("runs")); }
  // Waits until the program has written the checkpoint of a step, or has ended.
  auto Await(int64_t step, int signal) const {
    return [this, step, signal](pid_t process) {
      const std::string path = Path("runs/" + CheckpointName(step));
      while (!std::filesystem::exists(path) && kill(process, 0) == 0 && !HasEnded(process))
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      kill(process, signal);
    };
  }
  static bool HasEnded(pid_t process) {
    siginfo_t info = {};
    return waitid(P_PID, static_cast<id_t>(process), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == process;
  }
};

// A report without times.
json Measured(const json& report) {
  json measured = report;
  for (const char* key : {"startup_seconds", "step_ms", "peak_rss_mb"}) measured.erase(key);
  for (json& epoch : measured["epochs"]) epoch.erase("seconds");
  return measured;
}

// It may have room the next time: 2 would tell meshwork supervise that it never will.
TEST_F(ResumeTest, AFullDiskAtTheLastCheckpointIsNoWrongInput) {
  const Finished finished = RunProcess("/bin/sh",
                                       {"-c", "trap '' XFSZ; ulimit -f 64; exec \"$0\" \"$@\"", MLP_MNIST,
                                        "--data-dir", data(), "--batch-size", "8", "--mesh", "batch=2",
                                        "--workers", "1", "--epochs", "1", "--checkpoint-dir", Path("runs")},
                                       Path("process"));
  EXPECT_EQ(finished.code, 1) << finished.err;
  EXPECT_THAT(finished.err, HasSubstr("File too large"));
}

// Stopped twice, both times in the middle of an epoch, and once at its end.
TEST_F(ResumeTest, ThreeEpochsAreThoseInOneGo) {
  for (const char* mesh : {"batch=1", "batch=2,model=2"}) {
    SCOPED_TRACE(mesh);
    std::filesystem::remove_all(Path("runs"));
    const std::vector<std::string> epochs = {"--epochs",   "3",      "--json",
                                             Path("json"), "--save", Path("weights")};
    ASSERT_EQ(TrainOn(mesh, epochs).code, 0);
    const std::string expected = Contents(Path("weights"));
    const json whole = Measured(ReadJson("json"));
    ASSERT_EQ(whole["epochs"].size(), 3u);
    for (const char* steps : {"2", "4", "7"}) {
      std::vector<std::string> args = epochs;
      args.insert(args.end(), {"--steps", steps});
      ASSERT_EQ(Resume(mesh, args).code, 0);
      EXPECT_FALSE(Contents(Path("weights")) == expected);
    }
    EXPECT_THAT(Steps(), ElementsAre(7, 4, 2));
    const Finished last = Resume(mesh, epochs);
    ASSERT_EQ(last.code, 0) << last.err;
    EXPECT_EQ(last.err, "");
    EXPECT_THAT(last.out, HasSubstr("goes on after step 7, from " + Path("runs") + "\n"));
    EXPECT_THAT(last.out, HasSubstr("\nepoch 2/3  4 steps  "));
    EXPECT_THAT(last.out, HasSubstr("\nepoch 3/3  4 steps  "));
    EXPECT_THAT(last.out, Not(HasSubstr("epoch 1/3")));
    EXPECT_TRUE(Contents(Path("weights")) == expected);
    // The report has the whole second epoch, though another process made its first steps.
    const json report = Measured(ReadJson("json"));
    EXPECT_THAT(report["epochs"], ElementsAre(whole["epochs"][1], whole["epochs"][2]));
    EXPECT_EQ(report["epochs"][0]["epoch"], 2);
    EXPECT_EQ(Steps()[0], 12);
  }
}

TEST_F(ResumeTest, StepsCountFromTheBeginning) {
  const std::vector<std::string> args = {"--json", Path("json"), "--steps"};
  auto losses = [&](const std::string& steps, bool resumes) {
    std::vector<std::string> all = args;
    all.push_back(steps);
    const Finished finished = resumes ? Resume("batch=2", all) : TrainOn("batch=2", all);
    EXPECT_EQ(finished.code, 0) << finished.err;
    const json report = ReadJson("json");
    EXPECT_EQ(report["first_step"], resumes && steps == "9" ? 6 : 1);
    return report["step_losses"].get<std::vector<double>>();
  };
  const std::vector<double> whole = losses("9", false);
  ASSERT_EQ(whole.size(), 9u);
  EXPECT_EQ(losses("5", true), std::vector<double>(whole.begin(), whole.begin() + 5));
  EXPECT_EQ(losses("9", true), std::vector<double>(whole.begin() + 5, whole.end()));
  // Nothing is left to do.
  ASSERT_EQ(Resume("batch=2", {"--json", Path("json"), "--steps", "9"}).code, 0);
  EXPECT_EQ(ReadJson("json")["first_step"], 10);
  EXPECT_EQ(ReadJson("json")["step_losses"], json::array());
}

TEST_F(ResumeTest, GoesOnOnAnotherMeshWithTheSameExamples) {
  ASSERT_EQ(TrainOn("batch=1", {"--dtype", "f64", "--steps", "8", "--json", Path("json")}).code, 0);
  const auto whole = ReadJson("json")["step_losses"].get<std::vector<double>>();
  ASSERT_EQ(Resume("batch=2,model=2", {"--dtype", "f64", "--steps", "3"}).code, 0);
  const Finished finished =
      Resume("batch=3", {"--dtype", "f64", "--steps", "8", "--shard-weight-update", "--json", Path("json")});
  ASSERT_EQ(finished.code, 0) << finished.err;
  const auto losses = ReadJson("json")["step_losses"].get<std::vector<double>>();
  ASSERT_EQ(losses.size(), 5u);
  for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], whole[i + 3], 1e-9) << i;
}

TEST_F(ResumeTest, TheNewestStay) {
  ASSERT_EQ(
      Resume("batch=2", {"--checkpoint-every", "2steps", "--keep-checkpoints", "3", "--epochs", "2"}).code,
      0);
  EXPECT_THAT(Steps(), ElementsAre(8, 6, 4));
}

TEST_F(ResumeTest, SigtermWritesACheckpointAndEndsWell) {
  for (const int signal : {SIGTERM, SIGINT}) {
    std::filesystem::remove_all(Path("runs"));
    const Finished stopped =
        Resume("batch=2",
               {"--checkpoint-every", "3steps", "--epochs", "1000000", "--json", Path("json"), "--save",
                Path("weights"), "--stop-exit-code", signal == SIGTERM ? "75" : "0"},
               Await(3, signal));
    EXPECT_EQ(stopped.code, signal == SIGTERM ? 75 : 0) << stopped.err;
    EXPECT_EQ(stopped.err, "");
    const int64_t step = Steps().at(0);
    EXPECT_GE(step, 3);
    EXPECT_THAT(stopped.out,
                HasSubstr(fmt::format("stopped after step {}, as a signal asked worker 0 on ", step)));
    EXPECT_THAT(stopped.out, HasSubstr("; --resume goes on from " + Path("runs") + "\n"));
    EXPECT_FALSE(std::filesystem::exists(Path("weights")));  // the training is not finished

    const std::string steps = fmt::format("{}", step + 3);
    ASSERT_EQ(Resume("batch=2", {"--epochs", "1000000", "--steps", steps, "--save", Path("resumed")}).code,
              0);
    ASSERT_EQ(TrainOn("batch=2", {"--epochs", "1000000", "--steps", steps, "--save", Path("whole")}).code, 0);
    EXPECT_TRUE(Contents(Path("resumed")) == Contents(Path("whole")));
  }
}

TEST_F(ResumeTest, AKilledTrainingGoesOn) {
  const Finished killed =
      Resume("batch=2", {"--checkpoint-every", "1steps", "--epochs", "1000000"}, Await(5, SIGKILL));
  EXPECT_EQ(killed.code, 128 + SIGKILL);
  const int64_t step = Steps().at(0);
  const std::string steps = fmt::format("{}", step + 2);
  ASSERT_EQ(Resume("batch=2", {"--epochs", "1000000", "--steps", steps, "--save", Path("resumed")}).code, 0);
  ASSERT_EQ(TrainOn("batch=2", {"--epochs", "1000000", "--steps", steps, "--save", Path("whole")}).code, 0);
  EXPECT_TRUE(Contents(Path("resumed")) == Contents(Path("whole")));
}

TEST_F(ResumeTest, WithoutCheckpointsASignalEndsTheProgram) {
  const Finished ended =
      TrainOn("batch=2", {"--epochs", "1000000"}, [](pid_t process) { kill(process, SIGTERM); });
  EXPECT_EQ(ended.code, 128 + SIGTERM);
}

// ---- What is refused.

TEST_F(ResumeTest, RefusesWhatIsWrong) {
  ExpectRejected(TrainOn("batch=2", {"--resume"}),
                 "--resume: there is no --checkpoint-dir; it names the folder to go on from.");
  for (const char* every :
       {"600", "s", "0s", "-1steps", "10 steps", "10step", "", "1e3s", "99999999999999999999s"})
    ExpectRejected(
        TrainOn("batch=2", {"--checkpoint-dir", Path("runs"), "--checkpoint-every", every}),
        fmt::format("--checkpoint-every: \"{}\" is no length of time; give seconds, as 600s, or steps, as "
                    "100steps.",
                    every));
  ExpectRejected(TrainOn("batch=2", {"--checkpoint-dir", Path("runs"), "--keep-checkpoints", "0"}),
                 "--keep-checkpoints: \"0\" is not a whole number from 1 to 1048576.");
  EXPECT_THAT(Written(), IsEmpty());
}

TEST_F(ResumeTest, AFolderOfAnotherTrainingIsRefused) {
  ASSERT_EQ(Resume("batch=2", {"--steps", "2"}).code, 0);
  ExpectRejected(
      TrainOn("batch=2", {"--checkpoint-dir", Path("runs")}),
      "$/runs: has 1 checkpoint of a training, the newest of step 2; go on from it (`resume`; --resume of programs that have this flag), or name a folder "
      "without checkpoints.");
  EXPECT_THAT(Steps(), ElementsAre(2));
}

TEST_F(ResumeTest, OtherExamplesAreRefused) {
  ASSERT_EQ(Resume("batch=2", {"--steps", "2"}).code, 0);
  const std::string rule =
      "; its next examples would be others. Give the same flags, or begin anew in another folder.";
  ExpectRejected(Resume("batch=2", {"--batch-size", "4"}),
                 "$/runs: the training began with batch_size 8 and is to go on with 4" + rule);
  ExpectRejected(Resume("batch=2", {"--seed", "7"}),
                 "$/runs: the training began with seed 0 and is to go on with 7" + rule);
  ExpectRejected(Resume("batch=2", {"--shuffle", "off"}),
                 "$/runs: the training began with shuffle on and is to go on with off" + rule);
  ExpectRejected(Resume("batch=2", {"--train-examples", "20"}),
                 "$/runs: the training began with examples 28 and is to go on with 20" + rule);
  const Finished other = Resume("batch=2", {"--optimizer", "sgd"});
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err, HasSubstr("the checkpoint is of another model: "));
  EXPECT_THAT(other.err, HasSubstr("adam/"));
}

// A full disk, or one that is taken away: each failed checkpoint is reported; a failed last one is the program's error.
TEST_F(ResumeTest, AFolderThatGoesAwayIsReported) {
  const Finished finished =
      Resume("batch=2", {"--checkpoint-every", "3steps", "--epochs", "100", "--save", Path("weights")},
             [&](pid_t process) {
               Await(3, 0)(process);
               std::filesystem::rename(Path("runs"), Path("aside"));
               File("runs", "in the way");
             });
  EXPECT_EQ(finished.code, 1);
  EXPECT_THAT(finished.err, HasSubstr("; the training goes on, and tries the next one. See that " +
                                      Path("runs") + " can be written and has room.\n"));
  EXPECT_THAT(finished.err, HasSubstr("mlp_mnist: Checkpoint of step 400: "));
  EXPECT_FALSE(Contents(Path("weights")).empty());  // the results are there all the same
}

}  // namespace
}  // namespace meshwork::resume_test
