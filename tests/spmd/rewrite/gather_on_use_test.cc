// Variables that are gathered on use: the memory of whole values, and that nothing else changes.
#include "meshwork/spmd/rewrite/gather_on_use.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/gradients.h"
#include "meshwork/ir/plan/memory_plan.h"
#include "meshwork/ir/plan/memory_report.h"
#include "meshwork/ir/program.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/text.h"
#include "meshwork/ops/ops.h"
#include "meshwork/spmd/compile.h"
#include "meshwork/spmd/planner/kept_values.h"

namespace meshwork::gather_on_use_test {
namespace {

using testing::ElementsAre;

constexpr int64_t kUnits = 64;
constexpr int64_t kWeightBytes = kUnits * kUnits * 4;

// A step of SGD on `layers` square layers, over a batch that is cut by x.
Graph Layers(int layers, Gathering gather, const LayoutSpec& kept = {"x", UNSHARDED}) {
  Graph g(Mesh::Parse("x=8").value());
  Value h = g.Input("x", F32, {1024, kUnits}, {"x", UNSHARDED});
  std::vector<Value> weights;
  for (int l = 0; l < layers; ++l) {
    weights.push_back(
        g.Var(fmt::format("w{}", l), {Type{F32, {kUnits, kUnits}}, nullptr}, kept, {.gather = gather}));
    h = Tanh(MatMul(h, weights.back()));
  }
  const std::vector<Value> gradients = Gradients(ReduceSum(h, {0, 1}), weights);
  for (int l = 0; l < layers; ++l) g.Update(Variable(&g, weights[l].id()), weights[l] - gradients[l] * 0.1);
  return g;
}

// The most bytes of whole weights, or of whole gradients, that are live at one node.
int64_t LiveWhole(const Graph& local) {
  std::vector<BufferRequest> lives;
  std::vector<int> last(local.values().size(), -1);
  for (size_t n = 0; n < local.nodes().size(); ++n)
    for (ValueId id : local.nodes()[n].operands) last[id] = static_cast<int>(n);
  for (size_t v = 0; v < local.values().size(); ++v) {
    const ValueInfo& info = local.values()[v];
    if (info.type.shape == Shape{kUnits, kUnits}) lives.push_back({info.type.bytes(), info.node, last[v]});
  }
  return MaxLiveBytes(lives);
}

std::map<std::string, int64_t> CountsOf(const Program& program) {
  std::map<std::string, int64_t> counts;
  for (const CollectiveSummary& s : SummarizeCollectives(program.body)) counts[s.type] += s.count;
  return counts;
}

TEST(GatherOnUseTest, OneWholeWeightIsLiveHoweverManyLayersThereAre) {
  for (int layers : {1, 3, 12}) {
    const Graph local = Compile(Layers(layers, Gathering::kOnUse)).value().body;
    EXPECT_LE(LiveWhole(local), kWeightBytes) << PrintGraph(local);
  }
}

TEST(GatherOnUseTest, GathersTwiceAndScattersOncePerLayer) {
  // The first layer needs no dx.
  EXPECT_THAT(CountsOf(Compile(Layers(12, Gathering::kOnUse)).value()),
              ElementsAre(std::pair("all_gather", 23), std::pair("reduce_scatter", 12)));
}

// Without the mark the program may keep gathered weights, or run differently.
TEST(GatherOnUseTest, PeakIsThatOfBlocks) {
  const int64_t marked = LogicalPeakBytes(Compile(Layers(12, Gathering::kOnUse)).value().body);
  const int64_t whole =
      LogicalPeakBytes(Compile(Layers(12, Gathering::kWithinBudget, {UNSHARDED, UNSHARDED})).value().body);
  // An eighth of 12 weights instead of 12, and one gathered weight.
  EXPECT_LE(marked, whole - 12 * kWeightBytes * 7 / 8 + kWeightBytes);
}

TEST(GatherOnUseTest, AxesThatCutNothingElseStay) {
  Graph g(Mesh::Parse("data=4,model=2").value());
  const Value x = g.Input("x", F32, {512, 64}, {"data", UNSHARDED});
  const Variable w1 =
      g.Var("w1", {Type{F32, {64, 96}}, nullptr}, {"data", "model"}, {.gather = Gathering::kOnUse});
  const Variable w2 =
      g.Var("w2", {Type{F32, {96, 64}}, nullptr}, {"model", "data"}, {.gather = Gathering::kOnUse});
  g.Output("y", MatMul(Relu(MatMul(x, w1)), w2));
  const Program program = Compile(g).value();
  std::vector<std::string> collectives;
  for (const CollectiveSummary& s : SummarizeCollectives(program.body))
    collectives.push_back(fmt::format("{} {} {}", s.type, s.axes, s.count));
  EXPECT_THAT(collectives, ElementsAre("all_gather (data) 2", "all_reduce (model) 1"));
}

TEST(GatherOnUseTest, PlacingChangesNothingButTheOrder) {
  const Graph local = Compile(Layers(3, Gathering::kOnUse)).value().body;
  EXPECT_EQ(PrintGraph(PlaceGathers(local)), PrintGraph(local));
}

TEST(GatherOnUseTest, VariablesThatAreNotMarkedAreSharedAsBefore) {
  const Graph graph = Layers(3, Gathering::kWithinBudget);
  EXPECT_FALSE(GathersOnUse(graph));
  EXPECT_EQ(PrintGraph(MarkUses(graph)), PrintGraph(graph));
}

}  // namespace
}  // namespace meshwork::gather_on_use_test
