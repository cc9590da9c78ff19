// Compiles and runs the golden cases of spmd/cases, and compares them with the same programs on one
// device; padding is full of NaN. Also random numbers, which are the same bit by bit in every layout on
// every mesh.
#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "gmock/gmock.h"
#include "layout/all_layouts.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/gradients.h"
#include "meshwork/ir/program.h"
#include "meshwork/ir/program_cost.h"
#include "meshwork/ir/text.h"
#include "meshwork/ops/ops.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/runtime/cpu/schedule.h"
#include "meshwork/runtime/exec/executor.h"
#include "meshwork/spmd/compile.h"
#include "support/arguments.h"
#include "support/golden.h"
#include "support/interpreter.h"
#include "support/long_tests.h"
#include "support/tensors.h"

namespace meshwork::cases_test {
namespace {

// Larger cases take seconds on one device; MESHWORK_LONG_TESTS=1 runs them all.
constexpr double kMostFlops = 3e8;

double TotalFlops(const Graph& graph) {
  double flops = 0;
  for (const Node& node : graph.nodes())
    if (node.row->kind == OpKind::kCompute) flops += FlopsOf(graph, node);
  return flops;
}

std::map<std::string, std::vector<double>> DrawFeeds(const Graph& graph) {
  std::mt19937_64 engine(1);
  std::map<std::string, std::vector<double>> feeds;
  for (const Argument& argument : graph.arguments()) {
    const ValueInfo& info = graph.value(argument.value);
    std::vector<double>& numbers = feeds[info.name];
    for (int64_t i = 0; i < info.type.num_elements(); ++i)
      // Not below 0: second moments are fed, too.
      numbers.push_back(IsFloat(info.type.dtype) ? static_cast<double>(engine() % 33) / 16
                                                 : static_cast<double>(engine() % 2));
  }
  return feeds;
}

struct Step {
  std::map<std::string, Tensor> outputs;
  std::map<std::string, Tensor> variables;
};

absl::StatusOr<Step> RunStep(const Graph& graph, const std::map<std::string, std::vector<double>>& numbers) {
  MESHWORK_ASSIGN_OR_RETURN(const Program program, Compile(graph));
  CpuBackend backend(1);
  std::map<std::string, DTensor> state;
  MESHWORK_ASSIGN_OR_RETURN(auto executor,
                            Executor::Create(program, backend, {.poison_padding = true}, &state));
  MESHWORK_ASSIGN_OR_RETURN(const auto feeds, PackArguments(graph, numbers, state));
  Step step;
  MESHWORK_RETURN_IF_ERROR(executor->Run(feeds, &step.outputs));
  for (const auto& [name, value] : state) {
    MESHWORK_ASSIGN_OR_RETURN(Tensor tensor, Unpack(value, /*check_replicas=*/true));
    step.variables.emplace(name, std::move(tensor));
  }
  return step;
}

void ExpectNear(const std::string& name, const Tensor& found, const HostTensor& expected) {
  ASSERT_EQ(found.type(), expected.type()) << name;
  const std::vector<double> a = NumbersOf(found), b = expected.Numbers();
  double scale = 1;
  for (double x : b) scale = std::max(scale, std::abs(x));
  for (size_t i = 0; i < a.size(); ++i)
    ASSERT_LE(std::abs(a[i] - b[i]), 2e-5 * scale) << name << "[" << i << "] is " << a[i] << ", not " << b[i];
}

class CasesTest : public testing::TestWithParam<std::string> {};

TEST_P(CasesTest, GivesTheOneDeviceResult) {
  const std::string golden = ReadGolden(GetParam());
  const absl::StatusOr<Graph> graph = ParseGraph(golden.substr(0, golden.find("----\n")));
  ASSERT_TRUE(graph.ok()) << graph.status();
  if (!LongTests() && TotalFlops(*graph) > kMostFlops)
    GTEST_SKIP() << "too large without MESHWORK_LONG_TESTS";
  const std::map<std::string, std::vector<double>> feeds = DrawFeeds(*graph);
  const InterpretedStep expected = Interpret(*graph, feeds);
  const absl::StatusOr<Step> found = RunStep(*graph, feeds);
  ASSERT_TRUE(found.ok()) << found.status();
  for (const auto& [name, value] : expected.outputs) ExpectNear(name, found->outputs.at(name), value);
  for (const auto& [name, value] : expected.variables) ExpectNear(name, found->variables.at(name), value);
}

INSTANTIATE_TEST_SUITE_P(Files, CasesTest, testing::ValuesIn(GoldenFiles("spmd/cases")),
                         [](const auto& info) {
                           std::string name = info.param.substr(std::string_view("spmd/cases/").size());
                           name.resize(name.size() - std::string_view(".mw").size());
                           return name;
                         });

// ---- Random numbers.

constexpr int64_t kStep = 12;

// Every way to draw numbers, laid out alike.
Graph RandomGraph(const Layout& layout, const Shape& shape) {
  Graph g(layout.mesh());
  const Value step = g.Input("step", I64, {}, {});
  const Value ones = g.Input("ones", F32, shape, SpecOf(layout));
  const Type f32{F32, shape};
  auto out = [&](const char* name, const Value& x) { g.Output(name, Relayout(x, SpecOf(layout))); };
  out("uniform", RandomUniform(g, f32, 7, 1, -1, 2, {}));
  out("normal", RandomNormal(g, f32, 7, 2, 0, 3, step));
  out("truncated", RandomTruncatedNormal(g, {F64, shape}, 7, 3, 0, 1, {}));
  out("heads", RandomBernoulli(g, {BOOL, shape}, 7, 4, 0.3, step));
  const Value dropped = StatelessDropout(ones, 0.5, 7, 5, step);
  out("dropped", dropped);
  out("gradient", Gradients(ReduceSum(dropped, {0, 1}), {ones})[0]);
  return g;
}

TEST(RandomTest, NumbersAreTheSameBitByBitInEveryLayout) {
  const Shape shape = {10, 6};
  const std::map<std::string, std::vector<double>> feeds = {
      {"step", {kStep}}, {"ones", std::vector<double>(static_cast<size_t>(NumElements(shape)), 1)}};
  const auto expected = Interpret(RandomGraph(Layout::Replicated(Mesh(), 2), shape), feeds).outputs;
  ASSERT_EQ(expected.size(), 6u);
  const std::vector<double> heads = expected.at("heads").Numbers();
  EXPECT_THAT(heads, testing::Contains(1));
  EXPECT_THAT(heads, testing::Contains(0));
  for (const char* name : {"x=1", "x=2", "x=3", "x=4", "x=5", "x=6", "x=7", "x=8", "x=2,y=2", "x=4,y=2",
                           "x=2*2", "x=2*4", "x=2,y=2,z=2"}) {
    const Mesh mesh = Mesh::Parse(name).value();
    std::vector<Layout> layouts = AllWholeLayouts(mesh, 2);
    layouts.push_back(Layout::Strided(mesh, {{{5, {}}, {2, {0}}}, {{6, {}}}}));
    layouts.push_back(Layout::Strided(mesh, {{{10, {}}}, {{3, {0}}, {2, {}}}}));
    for (const Layout& layout : layouts) {
      const Graph graph = RandomGraph(layout, shape);
      ASSERT_TRUE(graph.status().ok()) << graph.status();
      EXPECT_THAT(SummarizeCollectives(Compile(graph).value().body), testing::IsEmpty()) << layout.ToString();
      const absl::StatusOr<Step> found = RunStep(graph, feeds);
      ASSERT_TRUE(found.ok()) << found.status();
      for (const auto& [output, value] : expected)
        ASSERT_EQ(NumbersOf(found->outputs.at(output)), value.Numbers())
            << output << " as " << layout.ToString() << " on " << name;
    }
  }
}

}  // namespace
}  // namespace meshwork::cases_test
