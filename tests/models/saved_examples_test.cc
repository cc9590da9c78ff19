// Programs of the examples, saved by a training and used by a program that has none of its code.
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "examples/support/cnn.h"
#include "examples/support/gpt.h"
#include "examples/support/mlp.h"
#include "fmt/format.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "session/saved/patterned.h"
#include "support/temp_dir.h"
#include "support/tensors.h"

namespace meshwork::saved_examples_test {
namespace {

class SavedExamplesTest : public TempDirTest {
 protected:
  // What use_saved prints: the first number of each output.
  std::map<std::string, double> Used(const std::string& arguments) {
    std::FILE* const pipe = popen(fmt::format("{} {} 2>&1", USE_SAVED, arguments).c_str(), "r");
    std::map<std::string, double> outputs;
    char name[256];
    double number = 0;
    while (std::fscanf(pipe, "%255s %lf", name, &number) == 2) outputs[name] = number;
    EXPECT_EQ(pclose(pipe), 0) << arguments;
    return outputs;
  }

  // Saves what the outputs need, uses it on the saved mesh and on others, and compares with the session's own.
  void Try(const Graph& graph, const std::vector<std::string>& outputs) {
    ASSERT_TRUE(graph.status().ok()) << graph.status();
    Session session = Session::Create(graph, {.workers = 1, .own_cores = false}).value();
    const absl::StatusOr<std::string> path =
        SaveProgram(session, Path("saved"), {.functions = {{"use", outputs}}});
    ASSERT_TRUE(path.ok()) << path.status();
    Feeds feeds;
    for (const Argument& argument : graph.arguments())
      if (!argument.is_variable)
        feeds.emplace(graph.value(argument.value).name, Patterned(graph.value(argument.value).type));
    const StepResult expected = session.Evaluate(feeds, outputs).value();
    for (const char* mesh : {"", " batch=1", " batch=2", " rows=2"}) {
      SCOPED_TRACE(mesh);
      const std::map<std::string, double> used = Used(fmt::format("{} use{}", Path("saved"), mesh));
      ASSERT_EQ(used.size(), outputs.size() + 1);
      EXPECT_EQ(used.at("as_saved"), std::string_view(mesh).empty() ? 1 : 0);
      for (const std::string& output : outputs) {
        const double wanted = NumbersOf(expected.Get(output).value())[0];
        EXPECT_NEAR(used.at(output), wanted, 1e-4 * (1 + std::abs(wanted))) << output;
      }
    }
  }
};

TEST_F(SavedExamplesTest, Mlp) {
  Graph g(Mesh::Parse("batch=4,model=2").value());
  BuildMlp(g, 16, {}, Adam({.learning_rate = 1e-3}));
  Try(g, {"loss", "accuracy"});
}

TEST_F(SavedExamplesTest, Cnn) {
  Graph g(Mesh::Parse("batch=2,height=2").value());
  BuildCnn(g, 8, {}, Adam({.learning_rate = 1e-3}));
  Try(g, {"loss"});
}

TEST_F(SavedExamplesTest, GptAndItsSampler) {
  const GptModel model{.layers = 2, .dim = 32, .heads = 4, .sequence = 16, .vocabulary = 64};
  Graph g(Mesh::Parse("batch=2,seq=2,model=2").value());
  BuildGpt(g, model, 4, Adam({.learning_rate = 1e-3}));
  Try(g, {"loss"});
  Graph sampler(Mesh::Parse("batch=1,seq=1,model=2").value());
  BuildGptSampler(sampler, model);
  Try(sampler, {"logits"});
}

TEST_F(SavedExamplesTest, Moe) {
  const GptModel model{.layers = 1, .dim = 32, .heads = 4, .sequence = 16, .vocabulary = 64, .experts = 4};
  Graph g(Mesh::Parse("batch=2,seq=1,model=2").value());
  BuildGpt(g, model, 4, Adam({.learning_rate = 1e-3}));
  Try(g, {"loss"});
}

}  // namespace
}  // namespace meshwork::saved_examples_test
