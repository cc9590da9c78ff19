// Programs on a PJRT plugin give the numbers of one device, node by node.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/ir/text.h"
#include "meshwork/ops/control/manual.h"
#include "meshwork/runtime/exec/executor.h"
#include "meshwork/spmd/compile.h"
#include "pjrt/real_plugin.h"
#include "support/backend_trials.h"
#include "support/for_each_node.h"
#include "support/golden.h"
#include "support/limits.h"
#include "support/long_tests.h"
#include "support/program_trial.h"
#include "support/random_program.h"
#include "support/random_training.h"
#include "support/sample.h"

namespace meshwork::pjrt_programs_test {
namespace {

// The programs of a test are drawn from several seeds, so that several processes can share them (GTEST_TOTAL_SHARDS).
uint64_t NumPrograms() { return LongTests() ? 100 : 3; }

constexpr uint64_t kSeeds = 10;

class PjrtProgramsTest : public WithRealPlugin<testing::TestWithParam<uint64_t>> {
 protected:
  template <typename Draw>
  void TryAll(Draw&& draw) {
    TryDrawn(*MakeBackend(), GetParam(), NumPrograms(), draw, {ExecutorOptions()});
  }
};

TEST_P(PjrtProgramsTest, RandomProgramsGiveTheOneDeviceResult) {
  const RandomPrograms programs;
  TryAll([&](uint64_t seed) { return programs.Draw(seed); });
}

TEST_P(PjrtProgramsTest, LoopsAndBranchesGiveTheOneDeviceResult) {
  const RandomPrograms programs;
  TryAll([&](uint64_t seed) { return programs.DrawLoops(seed); });
}

TEST_P(PjrtProgramsTest, TrainingsGiveTheOneDeviceResult) {
  TryAll([](uint64_t seed) { return DrawTraining(seed); });
}

// Every golden case compiles; those that one device computes in a moment are run, too.
TEST_P(PjrtProgramsTest, CasesGiveTheOneDeviceResult) {
  constexpr int64_t kMostElements = 200000;
  const std::unique_ptr<PjrtBackend> backend = MakeBackend();
  std::vector<std::string> files = GoldenFiles("spmd/cases");
  for (const std::string& file : GoldenFiles("spmd/compile")) files.push_back(file);
  int tried = 0;
  for (size_t f = GetParam(); f < files.size(); f += kSeeds) {
    const std::string text = ReadGolden(files[f]);
    const absl::StatusOr<Graph> graph = ParseGraph(text.substr(0, text.find("----\n")));
    ASSERT_TRUE(graph.ok()) << files[f] << ": " << graph.status();
    SCOPED_TRACE(files[f]);
    int64_t elements = 0;
    for (const ValueInfo& info : graph->values()) elements += info.global.num_elements();
    if (graph->mesh().num_devices() > kPjrtDevices) continue;
    if (elements > kMostElements) {
      if (!LongTests()) continue;
      std::map<std::string, DTensor> variables;
      EXPECT_TRUE(Executor::Create(Compile(*graph).value(), *backend, {}, &variables).ok());
      continue;
    }
    // With these feeds a while loop may never end.
    const RandomProgram random = WithFeeds(WithLimits(WithOutputNames(*graph), 5));
    const auto& nodes = random.graph.nodes();
    const bool is_manual = std::any_of(nodes.begin(), nodes.end(), IsManual);
    const Expected expected = is_manual ? ExpectedOnOneDomain(random) : ExpectedOf(random);
    if (!std::isfinite(expected.scale)) continue;
    EXPECT_EQ(TryProgram(random, expected, *backend).error(), "");
    ++tried;
  }
  EXPECT_GT(tried, 2);
}

INSTANTIATE_TEST_SUITE_P(Seeds, PjrtProgramsTest, testing::Range<uint64_t>(0, kSeeds));

// What the long tests above run: each row that programs are drawn of at least five times.
TEST(PjrtProgramRowsTest, EveryRowIsRunFiveTimes) {
  if (!LongTests()) GTEST_SKIP() << "a part of the long tests";
  const RandomPrograms programs;
  std::map<std::string_view, int> counts;
  for (uint64_t seed = 0; seed < kSeeds * NumPrograms(); ++seed)
    for (const RandomProgram& random : {programs.Draw(seed), programs.DrawLoops(seed), DrawTraining(seed)})
      ForEachNode(random.graph, [&](const Node& node) { ++counts[node.row->name]; });
  for (const OpRow* row : DrawnRows()) EXPECT_GE(counts[row->name], 5) << row->name;
  const auto least = std::min_element(counts.begin(), counts.end(),
                                      [](const auto& a, const auto& b) { return a.second < b.second; });
  fmt::print("{} rows, the rarest, {}, {} times\n", counts.size(), least->first, least->second);
}

class PjrtTrainingTest : public RealPluginTest {};

TEST_F(PjrtTrainingTest, TrainsAsTheCpuDoes) {
  for (const bool share : {false, true})
    for (const bool atomic : {false, true})
      ExpectTrainsAsTheCpu(
          *MakeBackend(), {.share = share, .poison_padding = true, .check_replicas = true, .atomic = atomic});
}

// XLA on CPUs writes a single row that lies in another device's block to the nearest one, unless it is told not to.
TEST_F(PjrtTrainingTest, ARowIsWrittenByTheDeviceThatHasIt) {
  const Graph graph = ParseGraph(R"(mesh [x=2]
func f(%i: i32[] {}, %x: f32[12,2] {_,_}, %u: f32[2] {_}) {
  %y = scatter_update %i, %x, %u dim=0 : f32[12,2] {x,_}
  return y=%y
})")
                          .value();
  std::map<std::string, DTensor> none;
  const std::unique_ptr<PjrtBackend> backend = MakeBackend();
  const auto executor = Executor::Create(Compile(graph).value(), *backend, {}, &none).value();
  const Tensor x = Tensor::Full({F32, {12, 2}}, 1), u = Tensor::Full({F32, {2}}, 2);
  for (int32_t i = -2; i < 14; ++i) {
    std::map<std::string, Tensor> outputs;
    ASSERT_TRUE(executor->Run({{"i", Tensor::From<int32_t>({}, {i})}, {"x", x}, {"u", u}}, &outputs).ok());
    for (int32_t row = 0; row < 12; ++row)
      EXPECT_EQ(outputs.at("y").values<float>()[static_cast<size_t>(2 * row)],
                row == std::clamp(i, 0, 11) ? 2 : 1)
          << i << " " << row;
  }
}

}  // namespace
}  // namespace meshwork::pjrt_programs_test
