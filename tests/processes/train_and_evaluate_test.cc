// examples/multi_worker/train_and_evaluate by several processes, with an evaluator and without.
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "processes/launched.h"

namespace meshwork::train_and_evaluate_test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class TrainAndEvaluateProcessesTest : public LaunchedTest {
 protected:
  // On a mesh of two devices, whatever the number of processes.
  std::vector<std::string> Args(const std::string& name, int processes, int steps) const {
    return {"--mesh",
            "batch=2",
            "--batch-size",
            fmt::format("{}", 32 / processes),
            "--data-dir",
            "synthetic",
            "--train-examples",
            "250",
            "--test-examples",
            "90",
            "--lr",
            "0.05",
            "--model-dir",
            Path(name),
            "--max-steps",
            fmt::format("{}", steps),
            "--save-checkpoints-steps",
            "10",
            "--deterministic"};
  }
  // The result lines of each step, without duplicates.
  static std::map<int64_t, std::set<std::string>> Results(const std::string& folder) {
    std::map<int64_t, std::set<std::string>> results;
    std::istringstream lines(Contents(folder + "/eval/results.jsonl"));
    for (std::string line; std::getline(lines, line);)
      results[nlohmann::json::parse(line).at("global_step")].insert(line);
    return results;
  }
  static std::string LastLine(const std::string& text) {
    return text.substr(text.find_last_of('\n', text.size() - 2) + 1);
  }
};

TEST_P(TrainAndEvaluateProcessesTest, TwoProcessesTrainAndEvaluateAsOne) {
  const Finished alone = Alone(TRAIN_AND_EVALUATE, Args("alone", 1, 25));
  ASSERT_EQ(alone.code, 0) << alone.err;
  for (int steps : {14, 25}) {  // the first run is stopped
    const Finished two = Launch(2, TRAIN_AND_EVALUATE, Args("two", 2, steps));
    ASSERT_EQ(two.code, 0) << two.err;
    if (steps == 25) {
      EXPECT_EQ(LastLine(two.out), LastLine(alone.out));
    }
  }
  auto results = Results(Path("two"));
  EXPECT_EQ(results.erase(14), 1u);  // the step at which it was stopped
  EXPECT_EQ(results, Results(Path("alone")));
  EXPECT_EQ(results.size(), 3u);  // 10, 20 and 25
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(TrainAndEvaluateProcessesTest);
INSTANTIATE_TEST_SUITE_P(Launchers, TrainAndEvaluateProcessesTest, testing::ValuesIn(Launchers()),
                         [](const auto& info) { return info.param.name; });

#ifdef LAUNCH
using EvaluatorProcessTest = TrainAndEvaluateProcessesTest;

// A chief, a worker and an evaluator. For each checkpoint that the evaluator has seen (the last one always), it writes
// the results that the training would have written.
TEST_P(EvaluatorProcessTest, AnEvaluatorSaysWhatTheTrainingWouldSay) {
  const Finished alone = Alone(TRAIN_AND_EVALUATE, Args("alone", 1, 40));
  ASSERT_EQ(alone.code, 0) << alone.err;
  const auto expected = Results(Path("alone"));
  const Finished finished =
      LaunchBy({LAUNCH, "--chief", "--evaluator", "2"}, TRAIN_AND_EVALUATE, Args("three", 2, 40));
  ASSERT_EQ(finished.code, 0) << finished.err;
  const auto results = Results(Path("three"));
  EXPECT_TRUE(results.contains(40));
  for (const auto& [step, lines] : results) EXPECT_EQ(lines, expected.at(step));
  EXPECT_THAT(finished.out, HasSubstr(LastLine(alone.out)));  // by the evaluator
  EXPECT_THAT(finished.out, HasSubstr("Loss for final step: "));
  EXPECT_THAT(LeftBehind(), IsEmpty());
}

// Other programs refuse to be started as an evaluator.
TEST_P(EvaluatorProcessTest, OtherProgramsHaveNothingForAnEvaluator) {
  const Finished finished = LaunchBy({LAUNCH, "--evaluator", "1"}, MLP_MNIST,
                                     {"--data-dir", "synthetic", "--train-examples", "10", "--test-examples",
                                      "10", "--epochs", "0", "--save", Path("weights")});
  EXPECT_NE(finished.code, 0);
  EXPECT_THAT(finished.err, HasSubstr("evaluator 0 holds no devices of the mesh"));
}

INSTANTIATE_TEST_SUITE_P(ByTfConfig, EvaluatorProcessTest, testing::Values(LauncherByTfConfig()),
                         [](const auto& info) { return info.param.name; });
#endif

}  // namespace
}  // namespace meshwork::train_and_evaluate_test
