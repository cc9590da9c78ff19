// Ops that exchange along a cut dim: their exchanges are costs of the search.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "meshwork/ir/plan/step_cost.h"
#include "meshwork/ir/program.h"
#include "meshwork/ir/text.h"
#include "meshwork/ops/ops.h"
#include "meshwork/spmd/auto/auto_layouts.h"
#include "support/small_drawer.h"

namespace meshwork::exchanges_test {
namespace {

// A chain of ops, of which about half move elements along a dim. Its argument has no layout.
Graph Draw(uint64_t seed) {
  std::mt19937_64 engine(seed);
  const auto below = [&](uint64_t n) { return engine() % n; };
  Graph graph(Mesh::Parse(below(2) == 0 ? "x=4,y=2" : "x=4").value());
  Value at = graph.Input("a", F32, {int64_t{8} << (4 * below(2)), int64_t{8} << (2 * below(3))});
  for (uint64_t left = 2 + below(4); left > 0; --left) {
    const auto dim = static_cast<int64_t>(below(2));
    switch (below(6)) {
      case 0: at = Roll(at, 1 + static_cast<int64_t>(below(3)), dim); break;
      case 1: at = Reverse(at, {dim}); break;
      case 2: at = Concat({at, Tanh(at)}, dim); break;
      case 3: at = ReduceSum(at, {dim}, /*keep_dims=*/true) + at; break;
      default: at = Tanh(at);
    }
  }
  graph.AddOutput({"y", at.id()});
  graph.mutable_value(graph.arguments()[0].value).layout.reset();
  return graph;
}

double SecondsOf(const Graph& graph, const Topology& topology) {
  const Graph body = Compile(graph, {.topology = topology}).value().body;
  return CostOf(body, topology).seconds + CountFlops(body) / topology.flops();
}

// Slices of blocks, which are operations too, are in no table of the search.
constexpr double kSlices = 1.01;

// The least time of a step with each even layout of its argument.
double LeastByBruteForce(const Graph& graph, const Topology& topology) {
  AxisSet axes;
  for (int axis = 0; axis < graph.mesh().num_axes(); ++axis) axes.Add(axis);
  const ValueId argument = graph.arguments()[0].value;
  double least = std::numeric_limits<double>::infinity();
  for (const Layout& layout : EvenLayouts(graph.mesh(), axes, graph.value(argument).type.shape)) {
    Graph pinned = graph;
    pinned.mutable_value(argument).layout = layout;
    pinned.mutable_value(argument).modes.clear();
    least = std::min(least, SecondsOf(pinned, topology));
  }
  return least;
}

TEST(ExchangesTest, PlansTakeNoMoreTimeThanAnyLayoutOfTheArgument) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Graph graph = Draw(seed);
    ASSERT_TRUE(graph.status().ok()) << graph.status();
    // Links that are slow beside the operations, and fast ones.
    for (const double bandwidth : {1e9, 1e12}) {
      const Topology topology =
          Topology::Parse(
              graph.mesh(),
              fmt::format(
                  R"({{"axes": {{"x": {{"bandwidth": {0}, "latency": {1}}}{2}}}, "flops": 1e9}})", bandwidth,
                  1e3 / bandwidth,
                  graph.mesh().num_axes() == 1
                      ? ""
                      : fmt::format(R"(, "y": {{"bandwidth": {}, "latency": 1e-4}})", bandwidth / 10)))
              .value();
      const std::vector<FoundLayouts> found = FindLayouts(graph, {.topology = topology}).value();
      EXPECT_LE(found[0].seconds(), LeastByBruteForce(graph, topology) * kSlices)
          << "seed " << seed << ", " << bandwidth << " B/s\n"
          << PrintGraph(found[0].graph);
    }
  }
}

}  // namespace
}  // namespace meshwork::exchanges_test
