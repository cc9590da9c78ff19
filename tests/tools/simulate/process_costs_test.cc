// The costs that make up the time of a process's step, and when they occur.
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/tools/simulate/process.h"
#include "tools/simulate/programs.h"

namespace meshwork::process_costs_test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// Simulates a program on two processes, with kernels that take no time.
Simulation OnTwoProcesses(const Program& program, const Link& link, Machine machine) {
  std::vector<Topology::AxisLink> links;
  for (const Axis& axis : program.body.mesh().axes()) links.push_back({axis.name, link});
  machine.topology = Topology::Create(program.body.mesh(), links, /*flops=*/1e30).value();
  return SimulateProcess(program, machine).value();
}

double SecondsIn(const Simulation& step, Lane lane) {
  double sum = 0;
  for (const SimulatedCost& cost : DearestOf(step)) sum += cost.lane == lane ? cost.seconds : 0;
  return sum;
}

// Also for a step of nothing but latency, starts, barriers and its own start and end.
TEST(ProcessCostsTest, CostsAreAllOfTheStep) {
  for (const int64_t workers : {1, 2}) {
    const Program program = Compiled(kProcessStep, 2);
    const Link link{.bandwidth = 1e9, .latency = 1};
    Machine machine{
        .topology = Topology::Create(program.body.mesh(), {{"x", link}, {"y", link}}, 1e9).value(),
        .op_seconds = 2,
        .step_seconds = 3,
        .workers = workers,
        .barrier_seconds = 4};
    const Simulation step = SimulateProcess(program, machine).value();
    EXPECT_NEAR(SecondsIn(step, Lane::kCompute), step.compute_seconds, 1e-9);
    EXPECT_NEAR(SecondsIn(step, Lane::kLinks), step.link_seconds, 1e-9);
    EXPECT_GE(step.link_seconds, 1);
  }
}

TEST(ProcessCostsTest, TheLimitIsWhatTakesMost) {
  constexpr std::string_view kOneSum = R"(mesh [x=2]
func step(%h: f32[64,96] {x,_}, %d: f32[64,32] {x,_}) {
  %g = matmul %h, %d transpose_a=true
  return g=%g
})";
  const Program program = Compiled(kOneSum, 2);
  const Simulation far = OnTwoProcesses(program, {.bandwidth = 1e30, .latency = 1}, {.workers = 1});
  EXPECT_THAT(far.limit, StartsWith("links: all_reduce over (x)"));
  EXPECT_THAT(far.limit, HasSubstr(" takes 100 %"));
  const Link near{.bandwidth = 1e30, .latency = 0};
  const Simulation slow = OnTwoProcesses(program, near, {.step_seconds = 1e-3, .workers = 1});
  EXPECT_EQ(slow.limit, "compute: start and end of a step takes 100 %");
  const Simulation meeting =
      OnTwoProcesses(Compiled(kProcessStep, 2), near, {.workers = 2, .barrier_seconds = 1});
  EXPECT_EQ(meeting.limit, "compute: barrier takes 100 %");
}

// Memory use starts at the beginning of the step, and changes at the first instruction of a node.
TEST(ProcessCostsTest, MemoryChangesWhereNodesBegin) {
  const Program program = Compiled(R"(mesh [x=2]
func step(%s: f32[64] {x}) {
  %a = exp %s
  %y = scan %a length=5 (var %c: f32[64]) {
    %e = exp %c
    update %c = %e
  } : f32[64]
  %z = tanh %y
  return z=%z
})");
  const Machine machine{.product_flops = 1, .workers = 1};
  const Schedule schedule = ScheduleOfProcess(program, machine).value();
  const Simulation step = SimulateProcess(program, machine).value();
  const std::vector<Node>& nodes = schedule.graph->nodes();
  ASSERT_EQ(step.memory.size(), nodes.size() + 1);
  EXPECT_EQ(step.memory[0].start, 0);
  int compared = 0;
  for (size_t n = 1; n < nodes.size(); ++n) {
    EXPECT_GE(step.memory[n].start, step.memory[n - 1].start);
    for (const SimulatedSpan& span : step.spans) {
      if (span.depth > 0 || span.node != static_cast<int>(n) || span.where != nodes[n].location.ToString())
        continue;
      EXPECT_EQ(step.memory[n].start, span.start) << span.op;
      ++compared;
      break;
    }
  }
  EXPECT_GE(compared, 2);
  EXPECT_LT(step.memory[nodes.size() - 1].start, step.memory.back().start);
}

// Of an if, the dearer branch is taken, first or second. A loop of unknown length runs once.
TEST(ProcessCostsTest, ABranchAndALoopOfUnknownLength) {
  constexpr std::string_view kCheap = "(%c: f32[64]) {\n    %n = neg %c\n    return %n\n  }";
  constexpr std::string_view kDear =
      "(%c: f32[64]) {\n    %e = cumsum %c dim=0\n    %n = exp %e\n    return %n\n  }";
  const Machine machine{.product_flops = 1, .workers = 1};
  std::vector<double> seconds;
  for (const auto& [first, second] :
       {std::pair(kCheap, kDear), std::pair(kDear, kCheap), std::pair(kCheap, kCheap)}) {
    const Program program = Compiled(fmt::format(
        "mesh [x=1]\nfunc step(%p: bool[], %s: f32[64]) {{\n  %y = if %p, %s {} else {}\n  return y=%y\n}}",
        first, second));
    seconds.push_back(SimulateProcess(program, machine)->seconds);
  }
  EXPECT_EQ(seconds[0], seconds[1]);
  EXPECT_LT(seconds[2], seconds[0]);
  const Program loop = Compiled(R"(mesh [x=1]
func step(%s: f32[64]) {
  %y = while %s (var %c: f32[64]) {
    %m = reduce_max %c dims=[0]
    %one = constant value=1 dtype=f32 shape=[]
    %go = less %m, %one
    %e = exp %c
    update %c = %e
    return %go
  }
  return y=%y
})");
  const Simulation once = SimulateProcess(loop, machine).value();
  for (const SimulatedSpan& span : once.spans) EXPECT_EQ(span.times, 1) << span.op;
  EXPECT_EQ(once.seconds, 64 + 1 + 1);  // of exp, of the condition and of what it compares
}

}  // namespace
}  // namespace meshwork::process_costs_test
