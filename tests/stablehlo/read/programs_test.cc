// Programs as JAX lowers them (tests/stablehlo/from_jax): what they compute here, and their gradients, beside what JAX recorded; on one
// device and on the mesh of their shardings.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/io/file.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/gradients.h"
#include "meshwork/ir/text.h"
#include "meshwork/runtime/tensor/tensor_compare.h"
#include "meshwork/session/session.h"
#include "meshwork/stablehlo/read/read_stablehlo.h"
#include "meshwork/storage/npy.h"

namespace meshwork::read_programs_test {
namespace {

struct Trial {
  const char* program;
  const char* mesh;
  friend void PrintTo(const Trial& trial, std::ostream* out) {
    *out << trial.program << " on " << trial.mesh;
  }
};
std::string NameOf(const testing::TestParamInfo<Trial>& info) {
  return fmt::format("{}{}", info.param.program,
                     std::string_view(info.param.mesh) == "batch=2,model=2" ? "OnFour" : "OnOne");
}

class ReadProgramsTest : public testing::TestWithParam<Trial> {
 protected:
  void SetUp() override {
    const std::string path = fmt::format("{}/stablehlo/from_jax/{}", MESHWORK_TEST_DIR, GetParam().program);
    text_ = ReadFile(path + ".mlir").value();
    auto recorded = ReadNpz(path + ".npz").value();
    for (auto& [name, tensor] : recorded) recorded_.emplace(name, std::move(tensor));
  }
  Graph Read(ReadStableHloOptions options = {}) const {
    options.mesh = Mesh::Parse(GetParam().mesh).value();
    return ReadStableHlo(text_, options).value();
  }
  const Tensor& Recorded(char kind, size_t i) const { return recorded_.at(fmt::format("{}{}", kind, i)); }
  size_t NumRecorded(char kind) const {
    size_t count = 0;
    while (recorded_.count(fmt::format("{}{}", kind, count)) > 0) ++count;
    return count;
  }
  Feeds FeedsOf(const Graph& graph) const {
    Feeds feeds;
    for (size_t a = 0; a < graph.arguments().size(); ++a)
      if (!graph.arguments()[a].is_variable)
        feeds.emplace(graph.argument_name(static_cast<int>(a)), Recorded('a', a));
    return feeds;
  }
  static void ExpectClose(const Tensor& seen, const Tensor& recorded, const std::string& what) {
    EXPECT_EQ(AllClose(seen, recorded, {.rtol = 1e-5, .atol = 1e-6}), absl::OkStatus()) << what;
  }

  std::string text_;
  std::map<std::string, Tensor> recorded_;
};

using ReadLossesTest = ReadProgramsTest;

TEST_P(ReadLossesTest, ValuesAndGradientsAreJaxs) {
  Graph graph = Read();
  std::vector<std::string> results;
  for (const OutputInfo& output : graph.outputs()) results.push_back(output.name);
  ASSERT_EQ(results.size(), NumRecorded('r'));
  const size_t num_weights = NumRecorded('g');
  if (num_weights > 0) {
    std::vector<Value> weights;
    for (size_t a = 0; a < num_weights; ++a) weights.emplace_back(&graph, graph.arguments()[a].value);
    const std::vector<Value> gradients = Gradients(Value(&graph, graph.outputs()[0].value), weights);
    for (size_t a = 0; a < num_weights; ++a) graph.Output(fmt::format("g{}", a), gradients[a]);
  }
  Session session = Session::Create(graph).value();
  const StepResult step = session.Run(FeedsOf(graph)).value();
  for (size_t r = 0; r < results.size(); ++r)
    ExpectClose(step.Get(results[r]).value(), Recorded('r', r), results[r]);
  for (size_t g = 0; g < num_weights; ++g)
    ExpectClose(step.Get(fmt::format("g{}", g)).value(), Recorded('g', g),
                fmt::format("the gradient by {}", graph.argument_name(static_cast<int>(g))));
}

constexpr const char* kOne = "batch=1,model=1";
constexpr const char* kFour = "batch=2,model=2";
INSTANTIATE_TEST_SUITE_P(
    Jax, ReadLossesTest,
    testing::Values(Trial{"mlp", kOne}, Trial{"mlp", kFour}, Trial{"cnn", kOne}, Trial{"cnn", kFour},
                    Trial{"cnn_gradient", kOne}, Trial{"cnn_gradient", kFour}, Trial{"transformer", kOne},
                    Trial{"transformer", kFour}, Trial{"scan", kOne}, Trial{"scan", kFour},
                    Trial{"scan_gradient", kOne}, Trial{"scan_gradient", kFour}, Trial{"remat", kOne},
                    Trial{"remat", kFour}, Trial{"remat_gradient", kOne}, Trial{"remat_gradient", kFour},
                    Trial{"decode", kOne}, Trial{"decode", kFour}),
    NameOf);

using ReadStepsTest = ReadProgramsTest;

TEST_P(ReadStepsTest, AWholeStepTrains) {
  const Graph graph = Read({.updates = {{"params", "result/0"}, {"state", "result/1"}}});
  const size_t num_variables = graph.updates().size();
  ASSERT_EQ(num_variables + 1, NumRecorded('r'));
  Session session = Session::Create(graph).value();
  for (size_t a = 0; a < num_variables; ++a)
    ASSERT_EQ(session.Set(graph.argument_name(static_cast<int>(a)), Recorded('a', a)), absl::OkStatus());
  const StepResult step = session.Run(FeedsOf(graph)).value();
  ExpectClose(step.Get(graph.outputs()[0].name).value(), Recorded('r', num_variables), "the loss");
  for (size_t a = 0; a < num_variables; ++a) {
    const std::string& name = graph.argument_name(static_cast<int>(a));
    ExpectClose(session.Get(name).value(), Recorded('r', a), name);
  }
}

INSTANTIATE_TEST_SUITE_P(Jax, ReadStepsTest, testing::Values(Trial{"adam", kOne}, Trial{"adam", kFour}),
                         NameOf);

}  // namespace
}  // namespace meshwork::read_programs_test
