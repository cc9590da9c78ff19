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

}  // namespace
}  // namespace meshwork::choose_layouts_test
