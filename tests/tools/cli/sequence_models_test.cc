// The programs of docs/examples.md that learn sequences and ratings, or call Fit in all its forms, as a shell sees
// them: the same losses on every mesh, and no longer than the original programs.
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/cli/example_models.h"
#include "tools/cli/process.h"

namespace meshwork::sequence_models_test {
namespace {

struct SequenceModel {
  std::string name, program;
  int steps;        // of a training
  size_t losses;    // of all trainings of the program
  std::string end;  // the end of its output
};

void PrintTo(const SequenceModel& model, std::ostream* out) { *out << model.name; }

Finished RunSequenceModel(const SequenceModel& model, const std::vector<std::string>& args) {
  return RunProcess(model.program, args,
                    fmt::format("{}cli-{}-{}", testing::TempDir(), model.name, getpid()));
}

std::vector<double> LossesOf(const std::string& text) {
  std::vector<double> losses;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    int step = 0;
    double loss = 0;
    if (std::sscanf(line.c_str(), "step %d: loss %lf", &step, &loss) == 2) losses.push_back(loss);
  }
  return losses;
}

class SequenceModelsTest : public testing::TestWithParam<SequenceModel> {};

TEST_P(SequenceModelsTest, LossesAreEqualOnFiveMeshes) {
  const SequenceModel& model = GetParam();
  std::vector<double> wanted;
  for (const char* mesh : kModelMeshes) {
    SCOPED_TRACE(mesh);
    const Finished finished = RunSequenceModel(
        model, {"--mesh", mesh, "--steps", std::to_string(model.steps), "--dtype", "f64", "--digits", "17"});
    ASSERT_EQ(finished.code, 0) << finished.err;
    // Each Fit prints which part begins.
    const std::string line = R"(I[0-9]+ [0-9:.]+ [0-9]+\] Fit: [^\n]*\n)";
    EXPECT_TRUE(std::regex_match(finished.err, std::regex("(" + line + ")*"))) << finished.err;
    EXPECT_THAT(finished.out, testing::ContainsRegex(model.end));
    const std::vector<double> losses = LossesOf(finished.out);
    ASSERT_EQ(losses.size(), model.losses) << finished.out;
    if (wanted.empty()) wanted = losses;
    EXPECT_THAT(losses, testing::Each(testing::Truly([](double loss) { return std::isfinite(loss); })));
    EXPECT_NE(losses.front(), losses.back());
    for (size_t i = 0; i < losses.size(); ++i)
      EXPECT_LE(std::abs(losses[i] - wanted[i]), 1e-9 * std::abs(wanted[i])) << "loss " << i;
  }
}

TEST_P(SequenceModelsTest, NamesWhatIsWrongWithAFlag) {
  const Finished finished = RunSequenceModel(GetParam(), {"--mesh", "batch=0"});
  EXPECT_EQ(finished.code, 2);
  EXPECT_EQ(finished.out, "");
  EXPECT_THAT(finished.err, testing::HasSubstr("batch"));
}

TEST_P(SequenceModelsTest, IsNotLongerThanTheOriginal) { ExpectNotLongerThanTheOriginal(GetParam().name); }

INSTANTIATE_TEST_SUITE_P(
    All, SequenceModelsTest,
    testing::Values(SequenceModel{"lstm", LSTM, 5, 5, "birds fly: [ANV] [ANV]\n"},
                    SequenceModel{"dlrm", DLRM, 5, 5, "ratings that were not trained: [0-9.]+\n$"},
                    SequenceModel{"mnist_schedule", MNIST_SCHEDULE, 2, 4, "test accuracy 0\\.[0-9]+\n$"},
                    SequenceModel{"built_in_methods", BUILT_IN_METHODS, 2, 34, "step 2: loss [0-9.]+\n$"}),
    [](const testing::TestParamInfo<SequenceModel>& info) { return info.param.name; });

}  // namespace
}  // namespace meshwork::sequence_models_test
