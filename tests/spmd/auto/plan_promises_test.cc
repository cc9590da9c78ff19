// What FindLayouts promises, against all layouts of the arguments of small steps, compiled one by one: a plan takes no
// longer than what Compile makes of the same program, it fits, a plan is found if any layouts fit, and no layouts take
// less time than the gap says.
#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "meshwork/ir/plan/explain.h"
#include "meshwork/ir/program.h"
#include "meshwork/ir/program_cost.h"
#include "meshwork/ir/text.h"
#include "meshwork/spmd/auto/auto_layouts.h"
#include "meshwork/spmd/compile.h"
#include "meshwork/spmd/planner/move_seconds.h"
#include "support/long_tests.h"
#include "support/step_drawer.h"

namespace meshwork::plan_promises_test {
namespace {

constexpr double kMore = 1 + 1e-9;  // times that differ by less are equal
constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr int64_t kTriesAll = 10'000;  // ops: enough to compile each step with all layouts

struct Step {
  double seconds = kNever;  // infinite: it does not compile
  int64_t peak = std::numeric_limits<int64_t>::max();
};

Step StepOf(const Graph& graph, const CompileOptions& options) {
  const absl::StatusOr<Program> program = Compile(graph, options);
  if (!program.ok()) return {};
  const StepCost cost = CostOf(program->body, options.topology);
  return {LinkSeconds(cost, options.topology) + CountFlops(program->body) / options.topology.flops(),
          cost.peak_bytes};
}

// The program with each combination of layouts of its open arguments.
std::vector<Graph> AllLayouts(const Graph& graph) {
  const std::vector<OpenValue> open = ArgumentLayouts(graph);
  std::vector<Graph> all = {graph};
  for (const OpenValue& value : open) {
    std::vector<Graph> more;
    for (const Graph& each : all) {
      for (const std::optional<Layout>& pin : value.pins) {
        more.push_back(each);
        more.back().mutable_value(value.id).layout = pin;
      }
    }
    all = std::move(more);
  }
  return all;
}

std::string PinsOf(const Graph& graph) {
  std::string pins;
  for (const Argument& argument : graph.arguments()) {
    const ValueInfo& info = graph.value(argument.value);
    pins += fmt::format(" {}{}", info.name, info.layout.has_value() ? info.layout->ToString() : "");
  }
  return pins;
}

struct Counts {
  int64_t tried = 0, planned = 0;
  int64_t within = 0;                                       // a memory budget
  int64_t zero_gaps = 0;                                    // plans of which no layouts are said to be better
  int64_t worse = 0, above = 0, unfit = 0, wrong_gaps = 0;  // promises broken
  int64_t slower = 0;                                       // plans that other layouts beat, as the gap says
};

// Checks the plan of one step. budget: 0: none; else a memory budget, from 1, which is the least with which any layouts
// compile as they are, to 100. most_tried: see FindLayoutsOptions.
void Check(const DrawnStep& step, const std::string& name, int64_t budget, int64_t most_tried,
           Counts& counts) {
  CompileOptions options{.verify = false, .topology = step.topology};
  const std::vector<Graph> all = AllLayouts(step.graph);
  std::vector<Step> steps;
  int64_t least = std::numeric_limits<int64_t>::max(), greatest = 0;
  for (const Graph& graph : all) {
    steps.push_back(StepOf(graph, options));
    if (steps.back().seconds == kNever) continue;
    least = std::min(least, steps.back().peak);
    greatest = std::max(greatest, steps.back().peak);
  }
  ++counts.tried;
  if (budget > 0 && least < greatest) {
    ++counts.within;
    options.memory_budget = least + (greatest - least) * (budget - 1) / 100;
    for (size_t i = 0; i < all.size(); ++i)
      if (steps[i].peak > options.memory_budget) steps[i] = StepOf(all[i], options);
  }
  const auto best = std::min_element(steps.begin(), steps.end(),
                                     [](const Step& a, const Step& b) { return a.seconds < b.seconds; });
  const auto print = [&](const std::string& what) {
    fmt::print("{}: {}\n{}topology {}\nmemory budget {}; the best layouts{}: {:.9g} s, {} B\n", name, what,
               step.text, step.topology_text, options.memory_budget,
               PinsOf(all[static_cast<size_t>(best - steps.begin())]), best->seconds, best->peak);
  };
  const absl::StatusOr<std::vector<FoundLayouts>> found =
      FindLayouts(step.graph, options, {.most_tried = most_tried});
  const Step compiled = StepOf(step.graph, options);
  if (!found.ok()) {
    // Without a compile of all layouts, none may be found although some fit.
    if (compiled.seconds == kNever && (best->seconds == kNever || most_tried < kTriesAll)) return;
    ++counts.unfit;
    print(fmt::format("no plan: {}", std::string(found.status().message())));
    return;
  }
  ++counts.planned;
  const FoundLayouts& plan = (*found)[0];
  const std::string said =
      fmt::format("{:.9g} s, {} B, gap {:.6f}; layouts{}\n{}", plan.seconds(), plan.cost.peak_bytes, plan.gap,
                  PinsOf(plan.graph), PrintGraph(plan.graph));
  const Step made = StepOf(plan.graph, options);
  EXPECT_DOUBLE_EQ(made.seconds, plan.seconds()) << said;
  EXPECT_EQ(made.peak, plan.cost.peak_bytes) << said;
  if (plan.seconds() > compiled.seconds * kMore) {
    ++counts.worse;
    print(fmt::format("Compile alone takes {:.9g} s: {}", compiled.seconds, said));
  }
  if (options.memory_budget > 0 && plan.cost.peak_bytes > options.memory_budget) {
    ++counts.above;
    print(fmt::format("above the budget: {}", said));
  }
  counts.zero_gaps += plan.gap < 1e-6 ? 1 : 0;
  counts.slower += best->seconds * kMore < plan.seconds() ? 1 : 0;
  if (best->seconds * kMore < (1 - plan.gap) * plan.seconds()) {
    ++counts.wrong_gaps;
    print(fmt::format("the gap is wrong: {}", said));
  }
}

TEST(PlanPromisesTest, HoldForSmallSteps) {
  Counts counts;
  for (int64_t seed = 0; seed < (LongTests() ? 1000 : 60); ++seed) {
    const std::string name = fmt::format("seed {}", seed);
    SCOPED_TRACE(name);
    const int64_t budget = seed % 2 == 0 ? 0 : 1 + seed * 37 % 100;
    // The search alone; with some compiles; with a compile of all layouts.
    const int64_t most_tried = std::array<int64_t, 3>{0, 400, kTriesAll}[static_cast<size_t>(seed % 3)];
    Check(StepDrawer(static_cast<uint64_t>(seed), LongTests() ? 130 : 64).Draw(), name, budget, most_tried,
          counts);
  }
  fmt::print(
      "{} steps, {} with a memory budget, {} planned, {} gaps of 0, {} plans that other layouts beat\n",
      counts.tried, counts.within, counts.planned, counts.zero_gaps, counts.slower);
  EXPECT_EQ(counts.worse, 0);
  EXPECT_EQ(counts.above, 0);
  EXPECT_EQ(counts.unfit, 0);
  EXPECT_EQ(counts.wrong_gaps, 0);
}

}  // namespace
}  // namespace meshwork::plan_promises_test
