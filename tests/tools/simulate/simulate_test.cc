#include "meshwork/tools/simulate/simulate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/ir/plan/memory_plan.h"
#include "meshwork/ir/plan/memory_report.h"
#include "meshwork/ir/text.h"
#include "meshwork/spmd/compile.h"

namespace meshwork::simulate_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Graph Parsed(std::string_view text) {
  absl::StatusOr<Graph> graph = ParseGraph(text);
  if (!graph.ok()) ADD_FAILURE() << MessageOf(graph.status());
  return graph.ok() ? *std::move(graph) : Graph(Mesh());
}

// A device that makes 1 operation a second, with links that send a byte a second, each message after 5 s.
Machine SlowMachine(const Graph& local, const Link& link = {.bandwidth = 1, .latency = 5}) {
  return {.topology = Topology::Create(local.mesh(), {{"x", link}}, /*flops=*/1).value()};
}

// A product of 2·2·3·4 = 48 operations; a sum over 4 devices of 2·4 elements: 4 messages, and 3/4 of 32 bytes twice.
constexpr std::string_view kSum = R"(mesh [x=4]
func step(%a: f32[2,3] of f32[2,12] {_,x}, %b: f32[3,4] of f32[12,4] {x,_}) {
  %p = matmul %a, %b : f32[2,4] {_,_ | sum:x}
  %s = all_reduce %p axes=(x) op=sum : f32[2,4] {_,_}
  return y=%s
})";

TEST(SimulateTest, AProductAndItsSumTakeTheirRooflineAndTheirRing) {
  const Graph local = Parsed(kSum);
  const Simulation step = Simulate(local, SlowMachine(local));
  EXPECT_EQ(step.compute_seconds, 48);
  EXPECT_EQ(step.link_seconds, 4 * 5 + 48);
  EXPECT_EQ(step.waited_seconds, 68);
  EXPECT_EQ(step.seconds, 116);
  EXPECT_THAT(step.spans,
              ElementsAre(SimulatedSpan{.node = 0, .op = "matmul", .where = "program:3", .seconds = 48},
                          SimulatedSpan{.node = 1,
                                        .lane = Lane::kLinks,
                                        .op = "all_reduce over (x)",
                                        .where = "program:4",
                                        .start = 48,
                                        .seconds = 68,
                                        .collective = 0}));
  EXPECT_EQ(step.limit, "links: all_reduce over (x) at program:4 takes 59 %");
}

TEST(SimulateTest, TheRooflineEndsAtTheMemory) {
  const Graph local = Parsed(kSum);
  Machine machine = SlowMachine(local);
  machine.memory_bandwidth = 1;  // 24 + 48 + 32 bytes
  machine.op_seconds = 2;
  machine.step_seconds = 7;
  const Simulation step = Simulate(local, machine);
  EXPECT_EQ(step.compute_seconds, 104 + 2 + 7);
  EXPECT_EQ(step.link_seconds, 68 + 2);
  EXPECT_TRUE(IsBoundByMemory(local, local.nodes()[0], machine));
  machine.memory_bandwidth = 4;
  EXPECT_EQ(Simulate(local, machine).compute_seconds, 48 + 2 + 7);
  EXPECT_FALSE(IsBoundByMemory(local, local.nodes()[0], machine));
}

TEST(SimulateTest, WhatIsMeasuredGoesBeforeTheRoofline) {
  const Graph local = Parsed(kSum);
  Machine machine = SlowMachine(local);
  EXPECT_EQ(KernelKey(local, local.nodes()[0]), "matmul f32[2,3] f32[3,4] -> f32[2,4]");
  EXPECT_EQ(KernelKey(local, local.nodes()[1]), "all_reduce f32[2,4] -> f32[2,4] axes=(x) op=sum");
  machine.kernels[KernelKey(local, local.nodes()[0])] = 3;
  EXPECT_EQ(Simulate(local, machine).compute_seconds, 3);
}

// Two sums, 8 elements each: each takes 4·5 + 48 s. The product before the second takes 48 s, and 8 operations follow.
constexpr std::string_view kTwoSums = R"(mesh [x=4]
func step(%a: f32[2,3] of f32[2,12] {_,x}, %b: f32[3,4] of f32[12,4] {x,_}, %c: f32[3,4] of f32[12,4] {x,_}) {
  %p = matmul %a, %b : f32[2,4] {_,_ | sum:x}
  %s = all_reduce %p axes=(x) op=sum : f32[2,4] {_,_}
  %q = matmul %a, %c : f32[2,4] {_,_ | sum:x}
  %t = all_reduce %q axes=(x) op=sum : f32[2,4] {_,_}
  %n = neg %s : f32[2,4] {_,_}
  return n=%n, t=%t
})";

TEST(SimulateTest, CollectivesRunBesideOpsUntilTheyAreRead) {
  const Graph local = Parsed(kTwoSums);
  const Machine machine = SlowMachine(local);
  const Simulation step = Simulate(local, machine);
  // The first sum takes 48 to 116. The second product ends at 96, but its sum waits for the link, from 116 to 184.
  EXPECT_EQ(step.seconds, 184);
  EXPECT_EQ(step.compute_seconds, 48 + 48 + 8);
  EXPECT_EQ(step.waited_seconds, (116 - 96) + (184 - 124));
  EXPECT_EQ(step.hidden_seconds(), 2 * 68 - 80);
  const Simulation waiting = Simulate(local, machine, {.overlap = false});
  EXPECT_EQ(waiting.seconds, 104 + 2 * 68);
  EXPECT_EQ(waiting.waited_seconds, waiting.link_seconds);
  EXPECT_EQ(waiting.hidden_seconds(), 0);
}

// In each of 5 turns a gather of 24 bytes and its 2 messages, then an exp of 8 elements, and a neg of 2.
constexpr std::string_view kLoop = R"(mesh [x=4]
func step(%s: f32[2] of f32[8] {x}) {
  %y = scan %s length=5 (var %c: f32[2] of f32[8] {x}) {
    %g = all_gather %c axes=(x) dim=0 : f32[8] of f32[8] {_}
    %e = exp %g : f32[8] of f32[8] {_}
    %n = neg %c : f32[2] of f32[8] {x}
    update %c = %n
  } : f32[2] of f32[8] {x}
  return y=%y
})";

TEST(SimulateTest, ALoopTakesItsBodyAsOftenAsItRuns) {
  const Graph local = Parsed(kLoop);
  const Simulation step = Simulate(local, SlowMachine(local));
  const double gather = 2 * 5 + 24, turn = gather + 8 + 2;
  EXPECT_EQ(step.seconds, 5 * turn);
  EXPECT_EQ(step.compute_seconds, 5 * 10);
  EXPECT_EQ(step.link_seconds, 5 * gather);
  ASSERT_EQ(step.spans.size(), 4u);
  EXPECT_TRUE(step.spans[0].has_body);
  EXPECT_EQ(step.spans[0].op, "scan");
  EXPECT_EQ(step.spans[0].seconds, 5 * turn);
  for (size_t s = 1; s < 4; ++s) {
    EXPECT_EQ(step.spans[s].depth, 1);
    EXPECT_EQ(step.spans[s].node, 0);
    EXPECT_EQ(step.spans[s].times, 5);
    EXPECT_LE(step.spans[s].end(), turn);  // of the first turn
  }
  const std::vector<SimulatedCost> dearest = DearestOf(step);
  ASSERT_EQ(dearest.size(), 3u);  // the loop itself is not listed
  EXPECT_EQ(dearest[0].op, "all_gather over (x)");
  EXPECT_EQ(dearest[0].seconds, 5 * gather);
  EXPECT_EQ(dearest[0].times, 5);
}

TEST(SimulateTest, OfABranchTheDearerBodyIsTaken) {
  constexpr std::string_view kCheap = R"((%c: f32[2] of f32[8] {x}) {
    %n = neg %c : f32[2] of f32[8] {x}
    return %n
  })";
  constexpr std::string_view kDear = R"((%c: f32[2] of f32[8] {x}) {
    %n = neg %c : f32[2] of f32[8] {x}
    %m = exp %n : f32[2] of f32[8] {x}
    return %m
  })";
  for (const auto& [first, second] : {std::pair(kCheap, kDear), std::pair(kDear, kCheap)}) {
    const Graph local =
        Parsed(fmt::format("mesh [x=4]\nfunc step(%p: bool[] {{}}, %s: f32[2] of f32[8] {{x}}) {{\n"
                           "  %y = if %p, %s {} else {} : f32[2] of f32[8] {{x}}\n  return y=%y\n}}",
                           first, second));
    const Simulation step = Simulate(local, SlowMachine(local));
    EXPECT_EQ(step.seconds, 4);
    ASSERT_EQ(step.spans.size(), 3u);
    EXPECT_EQ(step.spans[2].op, "exp");
  }
}

// 2^80 turns cannot be counted: the count stops at its maximum.
TEST(SimulateTest, TurnsThatCannotBeCountedAreAsManyAsCan) {
  const Graph local = Parsed(R"(mesh [x=4]
func step(%s: f32[2] of f32[8] {x}) {
  %y = scan %s length=1099511627776 (var %c: f32[2] of f32[8] {x}) {
    %z = scan %c length=1099511627776 (var %d: f32[2] of f32[8] {x}) {
      %e = exp %d : f32[2] of f32[8] {x}
      update %d = %e
    } : f32[2] of f32[8] {x}
    update %c = %z
  } : f32[2] of f32[8] {x}
  return y=%y
})");
  const Simulation step = Simulate(local, SlowMachine(local));
  EXPECT_EQ(step.seconds, std::ldexp(2.0, 80));
  EXPECT_EQ(DearestOf(step).at(0).times, std::numeric_limits<int64_t>::max());
  EXPECT_EQ(SummarizeCollectives(local).size(), 0u);
}

TEST(SimulateTest, BytesThatCannotBeCountedAreAsManyAsCan) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const std::vector<BufferRequest> requests = {{kMost, 0, 1}, {kMost, 1, 2}, {5, 3, 3}};
  EXPECT_THAT(LiveBytes(requests), ElementsAre(kMost, kMost, kMost, 5));
}

TEST(SimulateTest, ViewsTakeNoTime) {
  const Graph local = Parsed(R"(mesh [x=4]
func step(%s: f32[2] of f32[8] {x}) {
  %v = reshape %s shape=[2,1] : f32[2,1] of f32[8,1] {x,_}
  %n = neg %v : f32[2,1] of f32[8,1] {x,_}
  return y=%n
})");
  Machine machine = SlowMachine(local);
  machine.op_seconds = 100;
  EXPECT_EQ(Simulate(local, machine).seconds, 102);
}

// A step that does nothing is limited by nothing.
TEST(SimulateTest, NothingTakesNoTime) {
  const Graph local = Parsed("mesh [x=4]\nfunc step(%s: f32[2] of f32[8] {x}) {\n  return y=%s\n}");
  const Simulation step = Simulate(local, SlowMachine(local));
  EXPECT_EQ(step.seconds, 0);
  EXPECT_EQ(step.limit, "nothing: the step takes no time");
  Machine machine = SlowMachine(local);
  machine.step_seconds = 1e-3;
  EXPECT_EQ(Simulate(local, machine).limit, "compute: start and end of a step takes 100 %");
}

// ---- Laws, on compiled programs.

constexpr std::string_view kTraining = R"(mesh [x=2, y=4]
func step(%h: f32[16,24] {x,_}, var %w: f32[24,32] {_,y}, var %u: f32[32,8] {y,_}) {
  %a = matmul %h, %w
  %r = relu %a
  %b = matmul %r, %u
  %g = matmul %r, %b transpose_a=true
  %e = matmul %b, %u transpose_b=true
  %f = matmul %h, %e transpose_a=true
  %u1 = sub %u, %g
  %w1 = sub %w, %f
  %loss = reduce_sum %b dims=[0,1]
  update %w = %w1
  update %u = %u1
  return loss=%loss
})";

Machine FastMachine(const Mesh& mesh) {
  const Link link{.bandwidth = 1e9, .latency = 1e-6};
  return {.topology = Topology::Create(mesh, {{"x", link}, {"y", link}}, /*flops=*/1e9).value(),
          .memory_bandwidth = 1e9,
          .op_seconds = 1e-7,
          .step_seconds = 1e-6};
}

TEST(SimulateTest, LawsHold) {
  for (const char* mesh_text : {"x=2,y=4", "x=8,y=1", "x=1,y=8", "x=1,y=1"}) {
    const Mesh mesh = Mesh::Parse(mesh_text).value();
    std::string text(kTraining);
    text.replace(0, text.find('\n'), "mesh " + mesh.ToString());
    const Program program = Compile(Parsed(text)).value();
    const Machine machine = FastMachine(mesh);
    const Simulation step = Simulate(program.body, machine),
                     waiting = Simulate(program.body, machine, {.overlap = false});
    EXPECT_LE(step.seconds, waiting.seconds) << mesh_text;
    EXPECT_EQ(step.compute_seconds, waiting.compute_seconds) << mesh_text;
    EXPECT_EQ(step.link_seconds, waiting.link_seconds) << mesh_text;
    EXPECT_EQ(step.link_seconds == 0, mesh.num_devices() == 1) << mesh_text;
    for (const Simulation& each : {step, waiting}) {
      EXPECT_NEAR(each.seconds, each.compute_seconds + each.waited_seconds, 1e-15);
      EXPECT_EQ(each.peak_bytes, LogicalPeakBytes(program.body));
      EXPECT_EQ(each.memory.size(), program.body.nodes().size() + 1);
      int64_t most = 0;
      for (const MemoryAt& at : each.memory) most = std::max(most, at.bytes);
      EXPECT_EQ(most, each.peak_bytes);
      EXPECT_TRUE(std::is_sorted(each.memory.begin(), each.memory.end(),
                                 [](const MemoryAt& a, const MemoryAt& b) { return a.start < b.start; }));
      double compute = 0;
      for (const Lane lane : {Lane::kCompute, Lane::kLinks}) {
        double end = 0;
        for (const SimulatedSpan& span : each.spans) {
          if (span.lane != lane) continue;
          EXPECT_GE(span.start, end - 1e-15);
          end = span.end();
          if (lane == Lane::kCompute) compute += span.seconds;
        }
        EXPECT_LE(end, each.seconds);
      }
      EXPECT_NEAR(compute, each.compute_seconds, 1e-15);
    }
    if (mesh.num_devices() == 1) {
      EXPECT_EQ(step.seconds, step.compute_seconds);
      EXPECT_THAT(step.limit, HasSubstr("compute: "));
    }
  }
}

}  // namespace
}  // namespace meshwork::simulate_test
