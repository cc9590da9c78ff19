// Runs benchmarks/mlp_step from a shell.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "support/temp_dir.h"
#include "tools/cli/process.h"

namespace meshwork::mlp_step_test {
namespace {

using Json = nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class MlpStepTest : public TempDirTest {
 protected:
  Finished Run(std::vector<std::string> args) const { return RunProcess(MLP_STEP, args, Path("run")); }
};

std::vector<std::string> NamesOf(const Json& batch) {
  std::vector<std::string> names;
  for (const Json& variant : batch.at("variants")) names.push_back(variant.at("variant"));
  return names;
}

TEST_F(MlpStepTest, WritesWhatItMeasuredOfEachBatch) {
  const Finished run = Run({"--batch=16,24", "--meshes=batch=1 batch=8 batch=2,model=2/unshared",
                            "--repeats=2", "--steps=1", "--json=-"});
  ASSERT_EQ(run.code, 0) << run.err;
  const Json json = Json::parse(run.out);
  EXPECT_GE(json.at("workers"), 1);
  EXPECT_EQ(json.at("repeats"), 2);
  ASSERT_EQ(json.at("batches").size(), 2u);
  const Json& batch = json.at("batches")[1];
  EXPECT_EQ(batch.at("batch"), 24);
  EXPECT_EQ(batch.at("steps"), 1);
  // Products of 2 b (784 700 + 700 500 + 500 10) in the forward pass and for the gradients of the kernels; all but the
  // first for those of the inputs; the rest is small. Adam reads and writes three values of each of 905,010 parameters.
  EXPECT_NEAR(batch.at("gflop"), 1e-9 * 2 * 24 * (3 * 903'800 - 784 * 700), 0.03);
  EXPECT_NEAR(batch.at("mb"), 1e-6 * (6 * 4 * 905'010 + 24 * 4 * 785), 0.001);
  EXPECT_GT(batch.at("products_ms"), 0);
  EXPECT_GT(batch.at("memory_ms"), 0);
  EXPECT_THAT(NamesOf(batch), ElementsAre("by_hand", "batch=1", "batch=8", "batch=2,model=2/unshared"));
  for (const Json& variant : batch.at("variants")) {
    EXPECT_GT(variant.at("min_ms"), 0) << variant;
    EXPECT_GE(variant.at("ms"), variant.at("min_ms")) << variant;
    EXPECT_GT(variant.at("ratio"), 0) << variant;
    EXPECT_LT(variant.at("distance"), 0.01) << variant;
    if (variant.at("variant") == "by_hand") EXPECT_EQ(variant.at("ratio"), 1);
    else EXPECT_GT(variant.at("peak_mb"), 11) << variant;  // weights and Adam's state
  }
  EXPECT_GT(batch.at("rss_8_over_1"), 0.5);
}

TEST_F(MlpStepTest, PrintsATableAndWritesAFile) {
  const Finished run = Run({"--batch=8", "--meshes=batch=2", "--repeats=1", "--steps=2", "--memory=off",
                            "--json", Path("out.json")});
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("batch 8: rounds of 2 steps"));
  EXPECT_THAT(run.out, HasSubstr("\nby_hand "));
  EXPECT_THAT(run.out, HasSubstr("\nbatch=2 "));
  const Json json = Json::parse(Contents(Path("out.json")));
  EXPECT_FALSE(json.at("batches")[0].at("variants")[1].contains("peak_mb"));
  EXPECT_FALSE(json.at("batches")[0].contains("rss_8_over_1"));
}

TEST_F(MlpStepTest, RunsOneVariantAlone) {
  for (const std::string variant : {"by_hand", "batch=4", "batch=4/unshared"}) {
    const Finished run = Run({"--only", variant, "--batch=8", "--repeats=1", "--steps=1", "--json=-"});
    ASSERT_EQ(run.code, 0) << run.err;
    const Json batch = Json::parse(run.out).at("batches")[0];
    EXPECT_THAT(NamesOf(batch), ElementsAre(variant));
    EXPECT_GT(batch.at("variants")[0].at("peak_mb"), 11);
    EXPECT_FALSE(batch.at("variants")[0].contains("ratio"));
  }
}

TEST_F(MlpStepTest, RejectsWhatItCannotMeasure) {
  const auto expect_error = [&](const std::vector<std::string>& args, const std::string& message) {
    const Finished run = Run(args);
    EXPECT_EQ(run.code, 2) << message;
    EXPECT_EQ(run.out, "") << message;
    EXPECT_EQ(run.err, "mlp_step: " + message + "\n");
  };
  expect_error({"--batch=12,x"}, "--batch: \"x\" is not a whole number from 1 to 1000000.");
  expect_error({"--batch=0"}, "--batch: \"0\" is not a whole number from 1 to 1000000.");
  expect_error({"--batch="}, "--batch: the list is empty; write for example 128,1024.");
  expect_error({"--meshes= "}, "--meshes: the list is empty; write for example \"batch=8 batch=4,model=2\".");
  expect_error({"--repeat=3"}, "there is no flag --repeat; did you mean \"repeats\"? See --help.");
  EXPECT_EQ(Run({"--batch=8", "--meshes=batch"}).code, 2);
  EXPECT_THAT(Run({"--batch=8", "--only=batch=2,batch=4"}).err,
              HasSubstr("mlp_step: \"batch=2,batch=4\": Mesh"));
  EXPECT_THAT(Run({"--batch=8", "--json", Path("none/out.json")}).err, HasSubstr("mlp_step: "));
  EXPECT_EQ(Run({"--help"}).code, 0);
}

}  // namespace
}  // namespace meshwork::mlp_step_test
