// The savings of ChooseLayouts in a program that is too long for a golden text.
#include "meshwork/spmd/choose_layouts.h"

#include "gtest/gtest.h"
#include "meshwork/ir/plan/explain.h"
#include "meshwork/ir/text.h"
#include "meshwork/spmd/compile.h"
#include "meshwork/spmd/passes.h"
#include "support/golden.h"

namespace meshwork::choose_layouts_test {
namespace {

TEST(ChooseLayoutsTest, ScalesAreGatheredRatherThanActivations) {
  const Graph graph = ParseGraph(ReadGolden("spmd/fsdp_with_scales.mw")).value();
  const Program program = Compile(graph).value();
  EXPECT_LE(CostOf(program.body, {}).bytes, 13'769'735);
  const Passed without = RunPasses(graph, {}, {.left_out = {"choose_layouts"}});
  EXPECT_GT(CostOf(without.program.body, {}).bytes, 13'769'735);
}

// Where the domains end decides nothing in a deterministic program, also where layouts are searched because weights
// must not be gathered.
TEST(ChooseLayoutsTest, DomainsChangeNoDeterministicLayouts) {
  for (const std::string& file : GoldenFiles("spmd/cases")) {
    if (file.find("_variables") == std::string::npos) continue;
    const std::string golden = ReadGolden(file);
    const Graph graph = ParseGraph(golden.substr(0, golden.find("----\n"))).value();
    const auto ops = [&](int64_t num_domains) {
      std::string text;
      const Program program = Compile(graph, {.num_domains = num_domains, .deterministic = true}).value();
      for (const Node& node : program.body.nodes()) {
        text += node.row->name;
        for (ValueId id : node.results) text += " " + program.body.value(id).type.ToString();
        text += "\n";
      }
      return text;
    };
    const std::string one = ops(1);
    for (const int64_t num_domains : {2, 4})
      if (graph.mesh().num_devices() % num_domains == 0) {
        EXPECT_EQ(ops(num_domains), one) << file << " on " << num_domains;
      }
  }
}

}  // namespace
}  // namespace meshwork::choose_layouts_test
