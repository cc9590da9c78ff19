// Examples/strategies: tf.distribute's programs print the same losses under every strategy.
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "support/golden.h"
#include "support/temp_dir.h"
#include "tools/cli/losses.h"
#include "tools/cli/process.h"

namespace meshwork::strategies_test {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class StrategyProgramTest : public TempDirTest, public ::testing::WithParamInterface<std::string> {
 protected:
  // Runs the program in a folder of its own, where it may save files.
  Finished RunHere(const std::vector<std::string>& args) const {
    std::string command = fmt::format("cd '{}' && exec {}/{}", Path(""), STRATEGIES, GetParam());
    for (const std::string& arg : args) command += " " + arg;
    return RunProcess("/bin/sh", {"-c", command}, Path("run"));
  }
  // All printed numbers that follow "loss".
  std::vector<double> Losses(std::vector<std::string> args) const {
    args.insert(args.end(),
                {"--dtype", "f64", "--digits", "17", "--train-examples", "120", "--test-examples", "60"});
    const Finished run = RunHere(args);
    EXPECT_EQ(run.code, 0) << run.err;
    return LossesIn(run.out);
  }
};

TEST_P(StrategyProgramTest, LossesAreThoseOfOneDevice) {
  const std::vector<double> expected = Losses({"--strategy", "one_device"});
  ASSERT_THAT(expected, SizeIs(::testing::Ge(3)));
  for (const std::vector<std::string>& args : std::vector<std::vector<std::string>>{
           {"--strategy", "default"},
           {"--strategy", "mirrored", "--num-devices", "3"},
           {"--strategy", "central_storage", "--num-devices", "2"},
           {"--strategy", "fully_sharded", "--num-devices", "8"},
           {"--strategy", "mesh", "--mesh", "batch=2,model=2"},
           {"--strategy", "multi_worker", "--cluster", "off", "--num-devices", "2"}}) {
    const std::vector<double> losses = Losses(args);
    ASSERT_EQ(losses.size(), expected.size()) << args[1];
    for (size_t i = 0; i < losses.size(); ++i)
      EXPECT_NEAR(losses[i], expected[i], 1e-9 * expected[i]) << args[1] << ", loss " << i;
  }
}

TEST_P(StrategyProgramTest, RefusesWhatIsWrong) {
  const Finished run = RunHere({"--strategy", "mirorred"});
  EXPECT_EQ(run.code, 2);
  EXPECT_THAT(run.err, HasSubstr("--strategy: \"mirorred\" is not one of"));
  const Finished help = RunHere({"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.out, HasSubstr("--strategy"));
}

INSTANTIATE_TEST_SUITE_P(All, StrategyProgramTest,
                         ::testing::Values("custom_loop", "custom_training", "keras_fit", "mirrored_mnist"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace meshwork::strategies_test
