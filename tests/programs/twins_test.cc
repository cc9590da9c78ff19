// Pairs of loops and branches that are equal after clean-up (support/twins.h), in random programs on meshes
// and layouts of every kind: compiled, proven, run, and compared with one device. The checker takes no loop
// of an unequal pair for the other.
#include "support/twins.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <string>

#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/regions.h"
#include "meshwork/ir/rewrite.h"
#include "meshwork/ir/text.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/spmd/compile.h"
#include "meshwork/verify/verify.h"
#include "support/long_tests.h"
#include "support/program_trial.h"
#include "support/random_program.h"

namespace meshwork::twins_test {
namespace {

int NumPairs() { return LongTests() ? 5000 : 500; }

// The number of loops and branches outside of bodies.
int64_t CountLoops(const Graph& graph) {
  return std::count_if(graph.nodes().begin(), graph.nodes().end(), IsControl);
}
int64_t CountTwins(const Graph& graph) {
  return std::count_if(graph.nodes().begin(), graph.nodes().end(),
                       [](const Node& node) { return IsControl(node) && node.location.file == "twin"; });
}

TEST(TwinsTest, AreCompiledAndGiveTheOneDeviceResult) {
  const RandomPrograms programs;
  CpuBackend backend(2);
  int64_t pairs = 0, merged = 0, failed = 0;
  for (uint64_t seed = 0; pairs < NumPairs() && failed < 10; ++seed) {
    const RandomProgram random = programs.DrawTwins(seed);
    const Expected expected = ExpectedOf(random);
    if (!std::isfinite(expected.scale)) continue;
    const Trial trial = TryProgram(random, expected, backend, {.wrong_pass = WrongPass::kRefuse});
    EXPECT_EQ(trial.error(), "") << "seed " << seed << "\n" << PrintGraph(random.graph);
    failed += !trial.error().empty();
    pairs += CountTwins(random.graph);
    const absl::StatusOr<Program> program = Compile(random.graph);
    if (program.ok()) merged += CountLoops(random.graph) - CountLoops(program->body);
  }
  fmt::print("{} pairs, {} of them merged\n", pairs, merged);
  EXPECT_GE(merged, NumPairs() / 5) << "hardly any pair becomes one loop";
}

// `graph` with another loop or branch, which has other results, in the place of its last twin.
Graph WithOther(const Graph& graph, std::mt19937_64& engine) {
  size_t last = 0;
  for (size_t n = 0; n < graph.nodes().size(); ++n)
    if (IsControl(graph.nodes()[n]) && graph.nodes()[n].location.file == "twin") last = n;
  Rewriter rewriter(graph);
  for (size_t n = 0; n < graph.nodes().size(); ++n) {
    Node node = graph.nodes()[n];
    if (n == last) node.regions = TwinMaker(engine, {}).OtherThan(node).regions;
    rewriter.Copy(node);
  }
  return std::move(rewriter).Finish();
}

TEST(TwinsTest, WhatIsNotEqualIsToldApart) {
  const RandomPrograms programs;
  std::mt19937_64 engine(1);
  int told = 0;
  for (uint64_t seed = 0; told < NumPairs() / 5; ++seed) {
    const Graph graph = programs.DrawTwins(seed).graph;
    const absl::StatusOr<Program> program = Compile(graph);
    ASSERT_TRUE(program.ok()) << program.status() << "\n" << PrintGraph(graph);
    // If there are fewer loops than in the program, one loop stands for another.
    if (CountLoops(program->body) == CountLoops(graph) || program->body.mesh() != graph.mesh()) continue;
    const Graph other = WithOther(graph, engine);
    EXPECT_FALSE(Verify(other, program->body).ok()) << "seed " << seed << "\n"
                                                    << PrintGraph(other) << PrintGraph(program->body);
    const absl::StatusOr<Program> compiled = Compile(other);
    EXPECT_TRUE(compiled.ok()) << compiled.status() << "\n" << PrintGraph(other);
    ++told;
  }
}

}  // namespace
}  // namespace meshwork::twins_test
