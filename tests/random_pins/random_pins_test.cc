// Steps of transformer layers with random layouts send little more than JAX sends, or take less time.
#include "random_pins/random_pins.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "meshwork/ir/plan/explain.h"
#include "meshwork/ir/text.h"
#include "meshwork/spmd/compile.h"
#include "support/long_tests.h"

namespace meshwork::random_pins_test {
namespace {

constexpr double kMostRatio = 1.1;

TEST(RandomPinsTest, AreOfEveryMeshLossAndMlp) {
  std::set<std::string> kinds;
  const std::vector<RandomPins> steps = LoadRandomPins();
  for (const RandomPins& step : steps)
    kinds.insert(fmt::format("{} {} {}", step.mesh, step.is_gated, step.classes > 0));
  EXPECT_EQ(kinds.size(), 12);
  EXPECT_EQ(steps.size(), 500);
}

// JAX compiles them all, so none may be refused.
TEST(RandomPinsTest, SendLittleMoreThanJaxOrTakeLessTime) {
  const std::vector<RandomPins> steps = LoadRandomPins();
  // Without choose_layouts, steps 39 and 399 fail.
  for (size_t i = LongTests() ? 0 : 7; i < steps.size(); i += static_cast<size_t>(EverySo(8))) {
    const RandomPins& step = steps[i];
    const Graph graph = BuildStep(step);
    const absl::StatusOr<Program> program = Compile(graph, {.verify = false});
    ASSERT_TRUE(program.ok()) << "seed " << step.seed << ": " << program.status() << "\n"
                              << PrintGraph(graph);
    const int64_t bytes = CostOf(program->body, {}).bytes;
    if (static_cast<double>(bytes) <= kMostRatio * static_cast<double>(step.jax_bytes)) continue;
    EXPECT_LT(AssumedSeconds(bytes, ProductFlops(program->body)),
              AssumedSeconds(step.jax_bytes, step.jax_flops))
        << "seed " << step.seed << ": " << bytes << " bytes, JAX " << step.jax_bytes << "\n"
        << PrintGraph(graph);
  }
}

}  // namespace
}  // namespace meshwork::random_pins_test
