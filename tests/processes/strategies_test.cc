// Examples/strategies in several processes, compared with one process on one device. MESHWORK_LONG_TESTS=1 tries every
// program, strategy and launcher; without it, one of the two launchers tries each program and strategy.
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "processes/launched.h"
#include "support/long_tests.h"
#include "tools/cli/losses.h"

namespace meshwork::strategies_test {
namespace {

using ::testing::SizeIs;

class StrategiesByLauncherTest : public LaunchedTest {};

TEST_P(StrategiesByLauncherTest, LossesAreThoseOfOneDevice) {
  size_t turn = GetParam().name == "Mpi" ? 0 : 1;
  for (const std::string program : {"custom_loop", "custom_training", "keras_fit", "mirrored_mnist"}) {
    // 40 steps; those of the networks have a short batch at the end of each epoch.
    const std::string epochs = program == "custom_loop" ? "4" : program == "keras_fit" ? "4" : "20";
    const std::string command = fmt::format(
        "cd '{}' && exec {}/{} --epochs {} --dtype f64 --digits 17 --train-examples 80 --test-examples 60",
        Path(""), STRATEGIES, program, epochs);
    const Finished alone = RunProcess("/bin/sh", {"-c", command + " --strategy one_device"}, Path("alone"));
    ASSERT_EQ(alone.code, 0) << alone.err;
    const std::vector<double> expected = LossesIn(alone.out);
    ASSERT_THAT(expected, SizeIs(::testing::Ge(3))) << program;
    for (const auto& [processes, strategy] : std::vector<std::pair<int, std::string>>{
             {2, "multi_worker"}, {3, "multi_worker"}, {2, "fully_sharded"}}) {
      if (!LongTests() && Launchers().size() > 1 && turn++ % 2 != 0) continue;
      const Finished launched = Launch(
          processes, "/bin/sh", {"-c", fmt::format("{} --num-devices 2 --strategy {}", command, strategy)});
      ASSERT_EQ(launched.code, 0) << program << " " << strategy << ": " << launched.err;
      const std::vector<double> losses = LossesIn(launched.out);
      ASSERT_EQ(losses.size(), expected.size()) << program << " " << strategy << "\n" << launched.out;
      for (size_t i = 0; i < losses.size(); ++i)
        EXPECT_NEAR(losses[i], expected[i], 1e-9 * std::abs(expected[i]))
            << program << " " << strategy << ", " << processes << " processes, loss " << i;
    }
  }
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(StrategiesByLauncherTest);
INSTANTIATE_TEST_SUITE_P(Launchers, StrategiesByLauncherTest, testing::ValuesIn(Launchers()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace meshwork::strategies_test
