// examples/gpt and examples/moe as a shell sees them.
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "support/golden.h"
#include "support/temp_dir.h"
#include "tools/cli/process.h"

namespace meshwork::gpt_test {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class GptProgramTest : public TempDirTest {
 protected:
  Finished Run(const std::string& program, const std::vector<std::string>& args) const {
    return RunProcess(program, args, Path("run"));
  }
  // A model that takes a second.
  Finished Train(const std::string& program, std::vector<std::string> args) const {
    args.insert(args.begin(), {"--layers=1", "--dim=32", "--heads=4", "--sequence=16", "--batch=8"});
    return Run(program, args);
  }
  json ReadJson(const std::string& name) const { return json::parse(Contents(Path(name))); }

  std::vector<double> Losses(const std::string& mesh, const std::vector<std::string>& more = {}) {
    std::vector<std::string> args = {"--mesh",           mesh,     "--dtype=f64", "--steps=5",
                                     "--sample-bytes=0", "--json", Path("json")};
    args.insert(args.end(), more.begin(), more.end());
    const Finished run = Train(GPT, args);
    EXPECT_EQ(run.code, 0) << run.err;
    return run.code == 0 ? ReadJson("json").at("step_losses").get<std::vector<double>>()
                         : std::vector<double>();
  }
};

TEST_F(GptProgramTest, HelpListsTheFlags) {
  const Finished gpt = Run(GPT, {"--help"}), moe = Run(MOE, {"-h"});
  EXPECT_EQ(gpt.code, 0);
  EXPECT_EQ(moe.code, 0);
  ExpectGolden("tools/cli/gpt_help.txt", gpt.out);
  ExpectGolden("tools/cli/moe_help.txt", moe.out);
}

TEST_F(GptProgramTest, GoesOnFromACheckpoint) {
  auto run = [&](std::vector<std::string> args) {
    args.insert(args.end(), {"--mesh=batch=2,model=2", "--sample-bytes=20", "--json", Path("json")});
    const Finished finished = Train(GPT, args);
    EXPECT_EQ(finished.code, 0) << finished.err;
    return finished.code == 0 ? ReadJson("json") : json();
  };
  const json whole = run({"--steps=7"});
  const std::string dir = "--checkpoint-dir=" + Path("runs");
  json first = run({"--steps=3", dir});
  const json second = run({"--steps=7", dir, "--resume"});
  EXPECT_EQ(whole.at("first_step"), 1);
  EXPECT_EQ(second.at("first_step"), 4);
  for (const json& loss : second.at("step_losses")) first["step_losses"].push_back(loss);
  EXPECT_EQ(first["step_losses"], whole.at("step_losses"));
  EXPECT_EQ(second.at("sample"), whole.at("sample"));
  const Finished other = Train(GPT, {"--steps=9", dir, "--resume", "--mesh=batch=2,model=2", "--seed=3"});
  EXPECT_EQ(other.code, 2);
  EXPECT_EQ(other.err,
            fmt::format("gpt: {}: the training began with seed 0 and is to go on with 3; its next examples "
                        "would be others. Give the same flags, or begin anew in another folder.\n",
                        Path("runs")));
}

TEST_F(GptProgramTest, LossesAreThoseOfOneDevice) {
  const std::vector<double> expected = Losses("batch=1");
  ASSERT_EQ(expected.size(), 5u);
  for (const char* mesh : {"batch=8", "batch=2,model=4", "batch=2,seq=2,model=2"}) {
    const std::vector<double> losses = Losses(mesh);
    ASSERT_EQ(losses.size(), 5u) << mesh;
    for (size_t i = 0; i < 5; ++i)
      EXPECT_NEAR(losses[i], expected[i], 1e-9 * expected[i]) << mesh << ", step " << i;
  }
}

TEST_F(GptProgramTest, LossesOfARingAreThoseOfOneDevice) {
  const std::vector<double> expected = Losses("batch=1");
  ASSERT_EQ(expected.size(), 5u);
  for (const char* mesh : {"batch=2,seq=2,model=2", "seq=4"}) {
    const std::vector<double> losses = Losses(mesh, {"--ring"});
    ASSERT_EQ(losses.size(), 5u) << mesh;
    for (size_t i = 0; i < 5; ++i)
      EXPECT_NEAR(losses[i], expected[i], 1e-9 * expected[i]) << mesh << ", step " << i;
    const json report = ReadJson("json");
    EXPECT_THAT(report.at("collectives").dump(), HasSubstr("\"exchange\"")) << mesh;
  }
}

TEST_F(GptProgramTest, LearnsATextAndWrites) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += "abcd";
  File("text", text);
  const Finished run = Train(
      GPT, {"--text", Path("text"), "--mesh=batch=2,model=2", "--positions=learned", "--steps=60",
            "--sample-bytes=19", "--temperature=0.1", "--json", Path("json"), "--plot", Path("plot.svg")});
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("/text: 800 bytes, mesh [batch=2, model=2] of 4 devices, "));
  EXPECT_THAT(run.out, HasSubstr("\nabcdabcdabcdabcdabcd\n"));
  const json report = ReadJson("json");
  EXPECT_EQ(report.at("devices"), 4);
  EXPECT_EQ(report.at("sample"), "abcdabcdabcdabcdabcd");
  EXPECT_EQ(report.at("step_losses").size(), 60u);
  EXPECT_NEAR(report.at("step_losses")[0], std::log(256), 1);
  EXPECT_LT(report.at("step_losses")[59], 0.1);
  EXPECT_GT(report.at("step_ms"), 0);
  EXPECT_FALSE(report.at("collectives").empty());
  EXPECT_THAT(Contents(Path("plot.svg")), HasSubstr("Loss"));
}

// The loss on a test text is that of one device, and differs from the loss on the training text.
TEST_F(GptProgramTest, TestsOnAnotherText) {
  std::string learned, other;
  for (int i = 0; i < 200; ++i) learned += "abcd", other += "abdc";
  File("learned", learned);
  File("other", other);
  const auto test_loss = [&](const std::string& mesh, const std::string& test_text) {
    const Finished run =
        Train(GPT, {"--text", Path("learned"), "--test-text", Path(test_text), "--mesh", mesh, "--dtype=f64",
                    "--steps=60", "--test-batches=3", "--sample-bytes=0", "--json", Path("json")});
    EXPECT_EQ(run.code, 0) << run.err;
    if (run.code != 0) return 0.0;
    const double loss = ReadJson("json").at("test_loss").get<double>();
    EXPECT_THAT(run.out, HasSubstr(fmt::format("\ntest loss {:.4f}, over 3 batches\n", loss)));
    return loss;
  };
  const double loss = test_loss("batch=1", "other");
  EXPECT_NEAR(test_loss("batch=2,seq=2,model=2", "other"), loss, 1e-9 * loss);
  EXPECT_LT(test_loss("batch=1", "learned"), 0.2);
  EXPECT_GT(loss, 1);
}

TEST_F(GptProgramTest, ExpertsOfTwoOnEachDeviceExchangeTheirTokens) {
  const Finished run =
      Train(MOE, {"--mesh=batch=4", "--steps=30", "--sample-bytes=5", "--json", Path("json")});
  ASSERT_EQ(run.code, 0) << run.err;
  const json report = ReadJson("json");
  // There and back, forward and backward: 16 tokens of a group of 2 go to 8 experts with 4 places each.
  constexpr int64_t kLocal = int64_t{8} * 2 * 4 * 32 * 4;
  int64_t all_to_alls = 0;
  for (const json& collective : report.at("collectives")) {
    if (collective.at("type") != "all_to_all") continue;
    all_to_alls += collective.at("count").get<int64_t>();
    EXPECT_LE(collective.at("bytes"), 4 * 3 * kLocal / 4);
  }
  EXPECT_EQ(all_to_alls, 4);
  EXPECT_LT(report.at("step_losses")[29], 0.8 * report.at("step_losses")[0].get<double>());
}

TEST_F(GptProgramTest, RefusesWhatIsWrong) {
  File("short", "abc");
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--stesp=3"}, "there is no flag --stesp; did you mean \"steps\"? See --help."},
      {{"--positions=absolute"}, "--positions: \"absolute\" is not one of rotary, learned."},
      {{"--temperature=0"}, "--temperature: \"0\" is not a number above 0."},
      {{"--mesh=batch"},
       "--mesh: Mesh: \"batch\" in \"batch\" is not name=size; write for example batch=4,model=2."},
      {{"--text", Path("short")},
       Path("short") + " has 3 bytes; examples of 64 and the byte that follows need 65."},
      {{"--text", Path("short"), "--sequence=2", "--test-batches=1"},
       "--test-batches: there is no --test-text beside --text; it names the file to evaluate."},
      {{"--test-text", Path("short"), "--test-batches=1"},
       "--test-text: " + Path("short") + " has 3 bytes; examples of 64 and the byte that follows need 65."},
      {{"--json", Path("x"), "--plot", Path("x")},
       "--json and --plot are the same file, " + Path("x") + "; one would overwrite the other."},
  };
  for (const auto& [args, message] : cases) {
    const Finished run = Run(GPT, args);
    EXPECT_EQ(run.code, 2);
    EXPECT_EQ(run.out, "");
    EXPECT_THAT(run.err, HasSubstr(message));
  }
  const Finished heads = Run(GPT, {"--heads=5"});
  EXPECT_EQ(heads.code, 2);
  EXPECT_THAT(heads.err, HasSubstr("64 units are not divided by 5 heads;"));
  EXPECT_FALSE(std::ifstream(Path("x")).good());
}

}  // namespace
}  // namespace meshwork::gpt_test
