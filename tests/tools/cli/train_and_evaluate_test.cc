// examples/multi_worker/train_and_evaluate as a shell sees it, in one process.
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "support/golden.h"
#include "support/temp_dir.h"
#include "tools/cli/process.h"

namespace meshwork::train_and_evaluate_test {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

class TrainAndEvaluateCliTest : public TempDirTest {
 protected:
  Finished Run(std::vector<std::string> args) const {
    return RunProcess(TRAIN_AND_EVALUATE, args, Path("process"));
  }
  // Trains up to `steps` steps, four batches an epoch. The tutorial's rate, 1e-4, would learn slowly.
  Finished Train(const std::string& name, int steps, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> args = {"--data-dir",
                                     "synthetic",
                                     "--train-examples",
                                     "250",
                                     "--test-examples",
                                     "90",
                                     "--model-dir",
                                     Path(name),
                                     "--max-steps",
                                     fmt::format("{}", steps),
                                     "--lr",
                                     "0.05",
                                     "--workers",
                                     "1"};
    args.insert(args.end(), more.begin(), more.end());
    return Run(args);
  }
};

std::string LastLine(const std::string& text) {
  return text.substr(text.find_last_of('\n', text.size() - 2) + 1);
}

TEST_F(TrainAndEvaluateCliTest, HelpListsTheFlags) {
  const Finished finished = Run({"--help"});
  EXPECT_EQ(finished.code, 0);
  ExpectGolden("tools/cli/train_and_evaluate_help.txt", finished.out);
}

TEST_F(TrainAndEvaluateCliTest, RefusesWhatIsWrong) {
  const Finished nowhere = Run({});
  EXPECT_EQ(nowhere.code, 2);
  EXPECT_EQ(nowhere.err,
            "train_and_evaluate: --model-dir is missing; it names the folder of the checkpoints.\n");
  const Finished flag = Train("a", 1, {"--save", "x"});
  EXPECT_EQ(flag.code, 2);
  EXPECT_THAT(flag.err, HasSubstr("there is no flag --save"));
}

// A run that was stopped in the middle of an epoch and started again ends with the numbers of a run without a stop.
TEST_F(TrainAndEvaluateCliTest, GoesOnWhereItWasStopped) {
  const Finished whole = Train("whole", 40, {"--log-step-count-steps", "10"});
  ASSERT_EQ(whole.code, 0) << whole.err;
  EXPECT_THAT(whole.out, HasSubstr("loss = "));
  EXPECT_THAT(whole.out, HasSubstr(", step = 40 ("));
  EXPECT_THAT(whole.out, HasSubstr("global_step/sec: "));
  EXPECT_THAT(whole.out, HasSubstr(fmt::format("Saving checkpoints for 40 into {}.\n", Path("whole"))));
  EXPECT_THAT(whole.out, HasSubstr("Saving dict for global step 40: accuracy = "));
  EXPECT_THAT(LastLine(whole.out), EndsWith(", \"global_step\": 40})\n"));
  for (int steps : {13, 27, 40}) {
    const Finished part = Train("parts", steps);
    ASSERT_EQ(part.code, 0) << part.err;
    if (steps != 40) continue;
    EXPECT_THAT(part.out,
                HasSubstr(fmt::format("Restored the checkpoint of step 27 from {}.\n", Path("parts"))));
    EXPECT_EQ(LastLine(part.out), LastLine(whole.out));
  }
}

}  // namespace
}  // namespace meshwork::train_and_evaluate_test
