// The examples, trained by several processes, beside one process with all devices.
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "meshwork/runtime/tensor/tensor.h"
#include "meshwork/storage/safetensors.h"
#include "processes/launched.h"
#include "support/tensors.h"

namespace meshwork::training_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using ::testing::StartsWith;

class TrainingTest : public LaunchedTest {
 protected:
  // 20 steps, with a short batch at the end of each epoch.
  std::vector<std::string> Digits(const std::string& mesh, const std::string& dtype) const {
    return {"--mesh",       mesh,  "--dtype",          dtype, "--data-dir",      "synthetic",
            "--epochs",     "7",   "--train-examples", "300", "--test-examples", "20",
            "--batch-size", "127", "--steps",          "20"};
  }

  std::string Weights(const Finished& finished) {
    EXPECT_EQ(finished.code, 0) << finished.err;
    std::string bytes = Contents(Path("weights"));
    EXPECT_FALSE(bytes.empty());
    std::filesystem::remove(Path("weights"));
    return bytes;
  }

  // The largest difference between weights in two files.
  static double Difference(const std::string& path, const std::string& other) {
    const auto tensors = ReadSafetensors(path).value(), others = ReadSafetensors(other).value();
    EXPECT_EQ(tensors.size(), others.size());
    double most = 0;
    for (size_t t = 0; t < tensors.size(); ++t) {
      const std::vector<double> a = NumbersOf(tensors[t].second), b = NumbersOf(others[t].second);
      for (size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
    }
    return most;
  }
};

TEST_P(TrainingTest, DeterministicWeightsAreThoseOfOneProcess) {
  const std::pair<std::string, std::string> runs[] = {
      {MLP_MNIST, "batch=8"}, {MLP_MNIST, "batch=4,model=2"}, {CNN_MNIST, "height=8"}};
  for (const auto& [program, mesh] : runs) {
    std::vector<std::string> args = Digits(mesh, "f32");
    args.insert(args.end(), {"--deterministic", "--save", Path("weights")});
    const std::string expected = Weights(Alone(program, args));
    for (int processes : {2, 4})
      EXPECT_TRUE(Weights(Launch(processes, program, args)) == expected)
          << program << " on " << mesh << ", " << processes << " processes";
  }
}

TEST_P(TrainingTest, WeightsAreNearlyThoseOfOneProcess) {
  const std::pair<std::string, std::string> runs[] = {
      {MLP_MNIST, "batch=8"}, {MLP_MNIST, "model=8"}, {CNN_MNIST, "height=8"}};
  for (const auto& [program, mesh] : runs) {
    std::vector<std::string> args = Digits(mesh, "f64");
    args.insert(args.end(), {"--check-replicas", "every=3", "--save", Path("alone.st")});
    ASSERT_EQ(Alone(program, args).code, 0);
    args.back() = Path("launched.st");
    for (int processes : {2, 4}) {
      const Finished finished = Launch(processes, program, args);
      ASSERT_EQ(finished.code, 0) << finished.err;
      EXPECT_LT(Difference(Path("alone.st"), Path("launched.st")), 1e-9)
          << program << " on " << mesh << ", " << processes << " processes";
    }
  }
}

// The losses of a transformer, to all digits.
TEST_P(TrainingTest, ATransformerIsTrained) {
  const std::vector<std::string> args = {"--mesh",          "batch=2,seq=2,model=2",
                                         "--layers",        "1",
                                         "--dim",           "16",
                                         "--heads",         "2",
                                         "--sequence",      "16",
                                         "--batch",         "4",
                                         "--steps",         "20",
                                         "--dtype",         "f64",
                                         "--deterministic", "--check-replicas",
                                         "every=4",         "--json",
                                         Path("json")};
  auto losses = [&](const Finished& finished) {
    EXPECT_EQ(finished.code, 0) << finished.err;
    const std::string json = Contents(Path("json"));
    std::filesystem::remove(Path("json"));
    return json.substr(json.find("\"step_losses\""));  // the losses and the sample
  };
  const std::string expected = losses(Alone(GPT, args));
  for (int processes : {2, 4}) EXPECT_EQ(losses(Launch(processes, GPT, args)), expected);
}

TEST_P(TrainingTest, TheChiefReportsAndTheOthersWriteLogs) {
  std::vector<std::string> args = Digits("batch=8", "f32");
  args.insert(args.end(), {"--log-dir", Path("logs"), "--json", Path("json")});
  const Finished finished = Launch(2, MLP_MNIST, args);
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_THAT(finished.out, HasSubstr("2 processes of 4 devices"));
  const std::string line = "epoch 1/7  3 steps";
  EXPECT_THAT(finished.out, HasSubstr(line));
  EXPECT_EQ(finished.out.find(line), finished.out.rfind(line)) << "once: " << finished.out;
  EXPECT_THAT(Contents(Path("logs/worker-1.log")), HasSubstr("worker 1 on "));
  EXPECT_THAT(Contents(Path("logs/worker-1.log")), HasSubstr("epoch 7/7"));
  EXPECT_FALSE(std::filesystem::exists(Path("logs/worker-0.log")));
  EXPECT_FALSE(Contents(Path("json")).empty());
}

// All processes appear, each with its devices, on one time axis.
TEST_P(TrainingTest, ATraceShowsAllProcesses) {
  std::vector<std::string> args = Digits("batch=2,model=4", "f32");
  args.insert(args.end(), {"--workers", "2", "--log-dir", Path("logs"), "--profile", Path("trace.json")});
  const Finished finished = Launch(2, MLP_MNIST, args);
  ASSERT_EQ(finished.code, 0) << finished.err;
  EXPECT_THAT(finished.out, HasSubstr("\nwaiting "));  // the chief's profile
  EXPECT_THAT(Contents(Path("logs/worker-1.log")), Not(HasSubstr("\nwaiting ")));

  std::map<int, std::string> processes;
  std::map<int, std::vector<std::string>> tracks;
  std::map<int, std::vector<std::pair<double, double>>> steps;  // start and end
  const nlohmann::json file = nlohmann::json::parse(Contents(Path("trace.json")));
  std::map<int, int> crossings;
  for (const nlohmann::json& event : file.at("traceEvents")) {
    const int pid = event.at("pid");
    if (event.at("name") == "process_name") processes[pid] = event.at("args").at("name");
    if (event.at("name") == "thread_name") tracks[pid].push_back(event.at("args").at("name"));
    if (event.at("ph") != "X") continue;
    const double start = event.at("ts"), end = start + event.at("dur").get<double>();
    EXPECT_GE(start, 0);
    if (event.contains("args")) crossings[pid] += static_cast<int>(event.at("args").count("hidden"));
    if (event.at("cat") == "step") steps[pid].emplace_back(start, end);
  }
  ASSERT_THAT(processes,
              ElementsAre(Pair(1, StartsWith("worker 0 on ")), Pair(2, StartsWith("worker 1 on "))));
  EXPECT_THAT(tracks[1], ElementsAre("steps", "device 0 (batch=0, model=0)", "device 1 (batch=0, model=1)",
                                     "device 2 (batch=0, model=2)", "device 3 (batch=0, model=3)",
                                     "worker 0 (devices 0-1)", "worker 1 (devices 2-3)", "between domains"));
  EXPECT_THAT(tracks[2], ElementsAre("steps", "device 4 (batch=1, model=0)", "device 5 (batch=1, model=1)",
                                     "device 6 (batch=1, model=2)", "device 7 (batch=1, model=3)",
                                     "worker 0 (devices 4-5)", "worker 1 (devices 6-7)", "between domains"));
  // The sums of the gradients cross in each step, and the trace says how much of that is hidden.
  for (int pid : {1, 2}) EXPECT_GE(crossings[pid], 10) << pid;
  // Both show the same last ten steps: each step has a sum, which keeps the two processes together.
  ASSERT_EQ(steps[1].size(), 10u);
  ASSERT_EQ(steps[2].size(), 10u);
  EXPECT_LT(steps[1].front().first, steps[2].back().second);
  EXPECT_LT(steps[2].front().first, steps[1].back().second);
}

TEST_P(TrainingTest, ATraceIsOfAllProcessesOrOfNone) {
  const Finished finished =
      LaunchEach(2, MLP_MNIST,
                 fmt::format("--data-dir synthetic --profile $(test $RANK = 0 && echo {} || echo on)",
                             Path("trace.json")));
  EXPECT_NE(finished.code, 0);
  EXPECT_THAT(finished.err, HasSubstr("Transport: the domains differ: domain 0: --profile names a file; "
                                      "domain 1: --profile names no file."));
  EXPECT_FALSE(std::filesystem::exists(Path("trace.json")));
  EXPECT_THAT(LeftBehind(), IsEmpty());
}

// ---- Checkpoints.

TEST_P(TrainingTest, ATrainingGoesOnInAnotherNumberOfProcesses) {
  std::vector<std::string> args = Digits("batch=6", "f32");
  args.insert(args.end(), {"--deterministic", "--save", Path("weights")});
  const std::string expected = Weights(Alone(MLP_MNIST, args));
  args.insert(args.end(), {"--checkpoint-dir", Path("runs"), "--checkpoint-every", "4steps", "--resume"});
  std::vector<std::string> part = args;
  part.insert(part.end(), {"--steps", "5"});
  EXPECT_FALSE(Weights(Launch(2, MLP_MNIST, part)) == expected);
  part.back() = "10";
  EXPECT_FALSE(Weights(Launch(3, MLP_MNIST, part)) == expected);
  part.back() = "11";
  EXPECT_FALSE(Weights(Alone(MLP_MNIST, part)) == expected);
  EXPECT_TRUE(Weights(Launch(2, MLP_MNIST, args)) == expected);
}

// One process gets the signal, and all stop after the same step.
TEST_P(TrainingTest, ASignalToOneProcessStopsAllWell) {
  const std::string script = fmt::format(
      "{0} --data-dir synthetic --train-examples 300 --test-examples 20 --epochs 1000000 --checkpoint-dir {1} "
      "--checkpoint-every 2steps & "
      "if test {2} = 1; then while ! test -e {1}/step-000000000002; do sleep 0.05; done; kill -TERM $!; fi; wait $!",
      MLP_MNIST, Path("runs"), GetParam().rank);
  const Finished finished = Launch(2, "/bin/sh", {"-c", script});
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_THAT(finished.out, HasSubstr(", as a signal asked worker 1 on "));
  EXPECT_THAT(finished.out, HasSubstr("--resume goes on from " + Path("runs")));
  EXPECT_THAT(LeftBehind(), IsEmpty());
}

TEST_P(TrainingTest, CheckpointsAreOfAllProcessesOrOfNone) {
  const Finished finished = LaunchEach(
      2, MLP_MNIST,
      fmt::format("--data-dir synthetic $(test $RANK = 0 && echo --checkpoint-dir {})", Path("runs")));
  EXPECT_NE(finished.code, 0);
  EXPECT_THAT(finished.err,
              HasSubstr("Transport: the domains differ: domain 0: --checkpoint-dir is given; domain 1: "
                        "--checkpoint-dir is not given."));
  EXPECT_FALSE(std::filesystem::exists(Path("runs")));
  EXPECT_THAT(LeftBehind(), IsEmpty());
}

TEST_P(TrainingTest, OtherProgramsAreNamedAndAllEnd) {
  const Finished finished =
      LaunchEach(2, MLP_MNIST, fmt::format("--data-dir synthetic --seed $RANK --log-dir {}", Path("logs")));
  EXPECT_NE(finished.code, 0);
  EXPECT_THAT(finished.err, HasSubstr("Transport: the domains differ: domain 0: the program "));
  EXPECT_THAT(LeftBehind(), IsEmpty());
}

TEST_P(TrainingTest, WhatOneProcessLacksIsToldToAll) {
  const Finished finished =
      LaunchEach(2, MLP_MNIST,
                 fmt::format("--data-dir $(test $RANK = 1 && echo {} || echo synthetic)", Path("nowhere")));
  EXPECT_NE(finished.code, 0);
  EXPECT_THAT(finished.err, HasSubstr("mlp_mnist: worker 1 on "));
  EXPECT_THAT(finished.err, HasSubstr(Path("nowhere")));
  EXPECT_THAT(LeftBehind(), IsEmpty());
}

TEST_P(TrainingTest, WhoDoesNotComeIsWaitedForUntilTheDeadline) {
  const Finished finished = Launch(
      2, "/bin/sh",
      {"-c",
       fmt::format("test {0} = 1 && exec sleep 300; exec {1} --data-dir synthetic --deadline 2 --log-dir {2}",
                   GetParam().rank, MLP_MNIST, Path("logs"))});
  EXPECT_EQ(finished.code, 1);  // meshwork supervise does not restart a program that ends with 2
  EXPECT_THAT(finished.err, HasSubstr("within 2000 ms"));
  EXPECT_THAT(LeftBehind(), IsEmpty());
}

TEST_P(TrainingTest, AMeshThatTheProcessesCannotShareIsRefused) {
  std::vector<std::string> args = Digits("batch=8", "f32");
  args.insert(args.end(), {"--save", Path("weights")});
  const Finished finished = Launch(3, MLP_MNIST, args);
  EXPECT_NE(finished.code, 0);
  EXPECT_THAT(finished.err, HasSubstr("--mesh: Placement: 3 processes on [batch=8] of 8 devices"));
  EXPECT_FALSE(std::filesystem::exists(Path("weights")));
  EXPECT_THAT(LeftBehind(), IsEmpty());
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(TrainingTest);
INSTANTIATE_TEST_SUITE_P(Launchers, TrainingTest, testing::ValuesIn(Launchers()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace meshwork::training_test
