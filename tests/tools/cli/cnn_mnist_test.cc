// examples/cnn_mnist as a shell sees it: the flags of mlp_mnist, and the same losses on every mesh.
#include <unistd.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "support/golden.h"
#include "support/temp_dir.h"
#include "tools/cli/process.h"

namespace meshwork::cnn_mnist_test {
namespace {

using nlohmann::json;

class CnnMnistTest : public TempDirTest {
 protected:
  static Finished Run(const std::vector<std::string>& args) {
    const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
    return RunProcess(CNN_MNIST, args, fmt::format("{}cli-{}-{}", testing::TempDir(), test.name(), getpid()));
  }

  // The losses of six steps on drawn digits. The last batch of an epoch is shorter.
  std::vector<double> LossesOn(const std::string& mesh) const {
    const std::string path = Path("cnn.json");
    const Finished finished =
        Run({"--data-dir", "synthetic", "--mesh", mesh, "--dtype", "f64", "--train-examples", "40",
             "--test-examples", "8", "--batch-size", "16", "--steps", "6", "--json", path});
    EXPECT_EQ(finished.code, 0) << finished.err;
    return json::parse(Contents(path)).at("step_losses").get<std::vector<double>>();
  }
};

TEST_F(CnnMnistTest, HelpListsTheFlags) {
  const Finished finished = Run({"--help"});
  EXPECT_EQ(finished.code, 0);
  ExpectGolden("tools/cli/cnn_mnist_help.txt", finished.out);
}

TEST_F(CnnMnistTest, LossesAreThoseOfOneDeviceOnEveryMesh) {
  const std::vector<double> one = LossesOn("batch=1");
  ASSERT_EQ(one.size(), 6u);
  for (const char* mesh : {"batch=8", "batch=4,height=2", "height=8", "batch=3,height=3"}) {
    const std::vector<double> losses = LossesOn(mesh);
    ASSERT_EQ(losses.size(), one.size()) << mesh;
    for (size_t step = 0; step < one.size(); ++step)
      EXPECT_LE(std::abs(losses[step] - one[step]), 1e-9 * std::abs(one[step]))
          << mesh << ", step " << step + 1;
  }
}

TEST_F(CnnMnistTest, Learns) {
  const std::string path = Path("cnn.json");
  const Finished finished =
      Run({"--data-dir", "synthetic", "--train-examples", "1000", "--test-examples", "200", "--epochs", "3",
           "--batch-size", "25", "--workers", "1", "--json", path});
  ASSERT_EQ(finished.code, 0) << finished.err;
  const json report = json::parse(Contents(path));
  EXPECT_EQ(report.at("parameters"), 3 * 3 * 32 + 32 + 5408 * 64 + 64 + 64 * 10 + 10);
  EXPECT_GT(report.at("epochs").back().at("test_accuracy"), 0.7);  // chance is 0.1
}

}  // namespace
}  // namespace meshwork::cnn_mnist_test
