// The examples, trained by several processes, beside one process with all devices.
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "meshwork/runtime/tensor.h"
#include "meshwork/train/safetensors.h"
#include "processes/launched.h"
#include "support/tensors.h"

namespace meshwork {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

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
    args.insert(args.end(), {"--save", Path("alone.st")});
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
                                         "--deterministic", "--json",
                                         Path("json")};
  auto losses = [&](const Finished& finished) {
    EXPECT_EQ(finished.code, 0) << finished.err;
    const std::string json = Contents(Path("json"));
    std::filesystem::remove(Path("json"));
    return json.substr(json.find("\"step_losses\""));  // and the sample
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
  EXPECT_NE(finished.code, 0);
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
}  // namespace meshwork
