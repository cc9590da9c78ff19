// examples/models as a shell sees them: the same losses on every mesh, and fewer lines than the original
// programs.
#include <unistd.h>

#include <cmath>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/cli/example_models.h"
#include "tools/cli/process.h"

namespace meshwork::models_test {
namespace {

// A program of examples/models, with its name in one line.
struct Example {
  const char* name;
};
constexpr Example kExamples[] = {
    {"dcgan"},
    {"resnet"},
    {"transfer_learning"},
    {"unet"},
};

void PrintTo(const Example& example, std::ostream* out) { *out << example.name; }

// The printed numbers by name. A line is "pretraining step 3: loss 0.52, of the generator 0.7".
using Series = std::map<std::string, std::vector<double>>;

Series LossesIn(const std::string& output) {
  static const std::regex kLine("(.*)step [0-9]+: (.*)"), kNumber("([A-Za-z_ ]+) ([-+.0-9e]+)");
  Series series;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (!std::regex_match(line, match, kLine)) continue;
    const std::string what = match[1], numbers = match[2];
    for (std::sregex_iterator n(numbers.begin(), numbers.end(), kNumber), end; n != end; ++n)
      series[what + (*n)[1].str()].push_back(std::stod((*n)[2]));
  }
  return series;
}

class ModelsTest : public testing::TestWithParam<Example> {
 protected:
  static Finished Run(const std::vector<std::string>& args) {
    return RunProcess(fmt::format("{}/{}", MODELS, GetParam().name), args,
                      fmt::format("{}models-{}-{}", testing::TempDir(), GetParam().name, getpid()));
  }
  static Series LossesOn(const std::string& mesh, int steps) {
    const Finished finished =
        Run({"--mesh", mesh, "--steps", std::to_string(steps), "--dtype", "f64", "--digits", "17"});
    EXPECT_EQ(finished.code, 0) << mesh << "\n" << finished.err;
    return LossesIn(finished.out);
  }
};

TEST_P(ModelsTest, LossesAreThoseOfOneDeviceOnEveryMesh) {
  const Series one = LossesOn(kModelMeshes[0], 4);
  ASSERT_FALSE(one.empty());
  for (const char* mesh : kModelMeshes) {
    const Series losses = LossesOn(mesh, 4);
    ASSERT_EQ(losses.size(), one.size()) << mesh;
    for (const auto& [what, values] : one) {
      ASSERT_EQ(values.size(), 4u) << what;
      const auto found = losses.find(what);
      ASSERT_TRUE(found != losses.end() && found->second.size() == values.size()) << what << " on " << mesh;
      for (size_t step = 0; step < values.size(); ++step)
        EXPECT_LE(std::abs(found->second[step] - values[step]), 1e-9 * std::abs(values[step]))
            << what << " on " << mesh << ", step " << step + 1;
    }
  }
}

// The last four steps see the examples of the first four again.
TEST_P(ModelsTest, LossesFall) {
  const auto four = [](const std::vector<double>& values, size_t from) {
    return values[from] + values[from + 1] + values[from + 2] + values[from + 3];
  };
  int losses = 0;
  for (const auto& [what, values] : LossesOn("batch=2,model=2", 12)) {
    if (!what.ends_with("loss")) continue;  // the loss of a generator may rise
    ++losses;
    ASSERT_EQ(values.size(), 12u) << what;
    EXPECT_LT(four(values, 8), four(values, 0)) << what;
  }
  EXPECT_GT(losses, 0);
}

TEST_P(ModelsTest, RefusesAWrongMeshAndExplainsItsFlags) {
  const Finished wrong = Run({"--mesh", "batch=0"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, testing::HasSubstr("batch=0"));
  const Finished help = Run({"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.out, testing::AllOf(testing::HasSubstr("--mesh"), testing::HasSubstr("--dtype")));
}

TEST_P(ModelsTest, IsNotLongerThanTheOriginal) { ExpectNotLongerThanTheOriginal(GetParam().name); }

INSTANTIATE_TEST_SUITE_P(Models, ModelsTest, testing::ValuesIn(kExamples),
                         [](const auto& example) { return std::string(example.param.name); });

TEST(CodeLinesTest, CommentsAndBlankLinesDoNotCount) {
  EXPECT_EQ(CodeLines("// a\n\nint x;  // b\n  // c\n  int y;\n}\n"), 3);
}

}  // namespace
}  // namespace meshwork::models_test
