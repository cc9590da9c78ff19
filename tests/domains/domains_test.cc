// Programs on several domains of this process, each with memory and threads of its own, beside the same
// programs on one device. Padding is full of NaN, and what domains have in common is compared bit by bit.
// MESHWORK_LONG_TESTS=1 tries many more.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/control/control_flow.h"
#include "meshwork/ir/regions.h"
#include "meshwork/ir/text.h"
#include "meshwork/mesh/placement.h"
#include "meshwork/runtime/local_program.h"
#include "support/golden.h"
#include "support/limits.h"
#include "support/long_tests.h"
#include "support/program_trial.h"
#include "support/random_program.h"
#include "support/random_training.h"

namespace meshwork {
namespace {

// The numbers of domains, from 2 to 4, over which the mesh can be spread.
std::vector<int64_t> DomainsOf(const Mesh& mesh) {
  std::vector<int64_t> counts;
  for (int64_t count : {2, 3, 4})
    if (Placement::Create(mesh, count).ok()) counts.push_back(count);
  return counts;
}

// With names for all outputs.
Graph Named(const Graph& graph) {
  Graph named = graph;
  named.ClearOutputs();
  for (size_t o = 0; o < graph.outputs().size(); ++o)
    named.AddOutput({OutputName(graph, static_cast<int>(o)), graph.outputs()[o].value});
  return named;
}

struct Tally {
  int programs = 0, runs = 0;
};

// Half of the inputs are fed as DTensors.
std::set<std::string> SomeInputs(const Graph& graph) {
  std::set<std::string> names;
  bool is_chosen = false;
  for (const Argument& argument : graph.arguments())
    if (!argument.is_variable && (is_chosen = !is_chosen)) names.insert(graph.value(argument.value).name);
  return names;
}

void Try(const std::string& name, const RandomProgram& random, Tally& tally) {
  const std::vector<int64_t> counts = DomainsOf(random.graph.mesh());
  if (counts.empty()) return;
  const bool is_manual = std::any_of(random.graph.nodes().begin(), random.graph.nodes().end(), IsManual);
  const Expected expected = is_manual ? ExpectedOnOneDomain(random) : ExpectedOf(random);
  if (!std::isfinite(expected.scale)) return;
  ++tally.programs;
  for (int64_t domains : counts) {
    ++tally.runs;
    const Trial trial =
        TryOnDomains(random, expected, domains, /*workers=*/1 + tally.runs % 2, SomeInputs(random.graph));
    ASSERT_EQ(trial.error(), "") << name << "\n" << PrintGraph(random.graph);
  }
}

TEST(DomainsTest, CasesAreThoseOfOneDevice) {
  Tally tally;
  for (const std::string_view folder : {"spmd/cases", "spmd/split_at_domains", "spmd/compile"}) {
    for (const std::string& file : GoldenFiles(folder)) {
      const std::string text = ReadGolden(file);
      const absl::StatusOr<Graph> graph = ParseGraph(text.substr(0, text.find("----\n")));
      ASSERT_TRUE(graph.ok()) << file << ": " << graph.status();
      int64_t elements = 0;
      for (const ValueInfo& info : graph->values()) elements += info.global.num_elements();
      if (!LongTests() && elements > 200000) continue;
      SCOPED_TRACE(file);
      // With these feeds a while may never end.
      Try(file, WithFeeds(WithLimits(Named(*graph), 5)), tally);
      if (HasFailure()) return;
    }
  }
  EXPECT_GE(tally.programs, 50);
  EXPECT_GE(tally.runs, 100);
}

TEST(DomainsTest, RandomProgramsAreThoseOfOneDevice) {
  const RandomPrograms programs;
  Tally all, loops, training, loop_training;
  const uint64_t scale = LongTests() ? 8 : 1;
  for (uint64_t seed = 0; seed < 300 * scale && !HasFailure(); ++seed)
    Try(fmt::format("program {}", seed), programs.Draw(seed), all);
  for (uint64_t seed = 0; seed < 80 * scale && !HasFailure(); ++seed)
    Try(fmt::format("moves {}", seed), RandomPrograms::DrawMoves(seed), all);
  for (uint64_t seed = 0; seed < 80 * scale && !HasFailure(); ++seed)
    Try(fmt::format("loops {}", seed), programs.DrawLoops(seed), loops);
  for (uint64_t seed = 0; seed < 60 * scale && !HasFailure(); ++seed)
    Try(fmt::format("training {}", seed), DrawTraining(seed), training);
  for (uint64_t seed = 0; seed < 20 * scale && !HasFailure(); ++seed)
    Try(fmt::format("training with loops {}", seed), DrawLoopTraining(seed), loop_training);
  fmt::print("{} programs in {} runs, {} with loops, {} with gradients, {} with both\n", all.programs,
             all.runs, loops.programs, training.programs, loop_training.programs);
  EXPECT_GE(all.programs + loops.programs + training.programs + loop_training.programs, 200);
}

}  // namespace
}  // namespace meshwork
