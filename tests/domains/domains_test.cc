// Programs on several domains of this process, each with memory and threads of its own, give the results of one
// device. Padding is full of NaN, and values that several domains hold are compared bit by bit.
// MESHWORK_LONG_TESTS=1 tries many more.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/regions.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/text.h"
#include "meshwork/mesh/placement.h"
#include "meshwork/ops/control/control_flow.h"
#include "meshwork/runtime/exec/executor.h"
#include "meshwork/runtime/transport/loopback.h"
#include "meshwork/spmd/compile.h"
#include "support/golden.h"
#include "support/limits.h"
#include "support/long_tests.h"
#include "support/program_trial.h"
#include "support/random_program.h"
#include "support/random_training.h"
#include "support/swiglu.h"

namespace meshwork::domains_test {
namespace {

// The numbers of domains, from 2 to 4, among which the mesh can be divided.
std::vector<int64_t> DomainsOf(const Mesh& mesh) {
  std::vector<int64_t> counts;
  for (int64_t count : {2, 3, 4})
    if (Placement::Create(mesh, count).ok()) counts.push_back(count);
  return counts;
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
    const int way = tally.runs % 8;  // mostly as users run them
    const ExecutorOptions options{.share = way != 1,
                                  .coalesce = way != 1 && way != 2,
                                  .fuse = way != 3,
                                  .atomic = way >= 4,
                                  .distributed = SomeInputs(random.graph)};
    const Trial trial = TryOnDomains(random, expected, domains, /*workers=*/1 + tally.runs % 2, options);
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
      // With these feeds a while loop may never end.
      Try(file, WithFeeds(WithLimits(WithOutputNames(*graph), 5)), tally);
      if (HasFailure()) return;
    }
  }
  EXPECT_GE(tally.programs, 50);
  EXPECT_GE(tally.runs, 100);
}

// A value that is the same on all devices is stored once in each domain. The last domain, whose own blocks are
// empty, makes the gathered value from its own copy.
TEST(DomainsTest, WhatIsTheSameEverywhereIsComputedWhereBlocksAreEmpty) {
  const Graph graph = ParseGraph(R"(mesh [x=4]
func f(%a: f32[], %b: f32[5] {x}) {
  %c = broadcast_to %a shape=[5] dims=[] : f32[5] {x}
  %d = tanh %c : f32[5] {x}
  %e = relayout %d {_}
  %g = add %d, %b
  return e=%e, g=%g
})")
                          .value();
  Tally tally;
  Try("broadcast", WithFeeds(graph), tally);
  EXPECT_EQ(tally.runs, 2);
}

// ---- Failures in the middle of a step.

// A loop, and a branch whose predicate depends on all domains, with sums in both. The op `fragile` throws when it
// reads this number.
constexpr float kBreaks = 54321;

constexpr std::string_view kFragile = R"(mesh [x=4]
func step(%a: f32[8] {x}, var %w: f32[8] {x}) {
  %zero = constant value=0 dtype=f32 shape=[]
  %sum = reduce_sum %a dims=[0]
  %more = greater %sum, %zero
  %c = scan %w, %a length=200 (var %c: f32[8], %a: f32[8]) {
    %b = fragile %c, %a
    %s = reduce_sum %b dims=[0]
    %d = mul %c, %s
    update %c = %d
  }
  %e = if %more, %c, %a (%c: f32[8], %a: f32[8]) {
    %s = reduce_sum %c dims=[0]
    %m = mul %a, %s
    return %m
  } else (%c: f32[8], %a: f32[8]) {
    return %c
  }
  update %w = %e
})";

Program FragileProgram() {
  static const bool is_registered = [] {
    OpRow row = SwigluRow("fragile");
    row.cpu = [](const KernelSpec& spec) {
      Kernel kernel = SwigluRow().cpu(spec);
      if (spec.results[0].local.dtype != F32) return kernel;
      kernel.run = [run = kernel.run](const KernelArgs& args) {
        for (int64_t i = args.begin; i < args.end; ++i)
          if (args.In<float>(1)[i] == kBreaks) throw std::bad_alloc();
        run(args);
      };
      return kernel;
    };
    return RegisterOp(row).ok();
  }();
  EXPECT_TRUE(is_registered);
  return Compile(ParseGraph(kFragile).value(), {.num_domains = 2}).value();
}

// Each domain runs steps until one fails; returns the status of each domain. `meanwhile` is called while both
// run.
std::vector<absl::Status> RunUntilFailure(const Program& program, bool second_breaks, int workers,
                                          const std::function<void(Transport&)>& meanwhile) {
  const auto ends = MakeLoopback(2, {.deadline = std::chrono::minutes(2)});
  std::vector<absl::Status> statuses(2);
  std::atomic<int> running{0};
  std::vector<std::thread> threads;
  for (size_t d = 0; d < 2; ++d) {
    threads.emplace_back([&, d] {
      CpuBackend backend(workers, /*own_cores=*/false);
      std::map<std::string, DTensor> state;
      const auto executor =
          Executor::Create(program, backend, {.poison_padding = true, .transport = ends[d].get()}, &state)
              .value();
      std::vector<float> a(8, 1);
      if (second_breaks && d == 1) a[7] = kBreaks;
      BoundStep step = executor->Bind({{"a", Tensor::From<float>({8}, a)}}, {}).value();
      ++running;
      while (statuses[d].ok()) statuses[d] = step.Run();
    });
  }
  while (running < 2) std::this_thread::yield();
  meanwhile(*ends[0]);
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

TEST(DomainsTest, AnAbortEndsTheStepOfAllDomains) {
  const Program program = FragileProgram();
  std::mt19937 random(5);
  for (int round = 0; round < 40; ++round) {
    const auto pause = std::chrono::microseconds(random() % 2000);
    const std::vector<absl::Status> statuses =
        RunUntilFailure(program, false, 1 + round % 2, [&](Transport& end) {
          std::this_thread::sleep_for(pause);
          end.Abort(absl::UnavailableError("the power is off."));
        });
    for (const absl::Status& status : statuses)
      EXPECT_EQ(status, absl::UnavailableError("the power is off."));
  }
}

TEST(DomainsTest, AKernelThatFailsEndsTheStepOfAllDomains) {
  const Program program = FragileProgram();
  for (int workers : {1, 2}) {
    const std::vector<absl::Status> statuses = RunUntilFailure(program, true, workers, [](Transport&) {});
    for (const absl::Status& status : statuses) {
      EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
      EXPECT_THAT(MessageOf(status), testing::HasSubstr("fragile"));
    }
  }
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
}  // namespace meshwork::domains_test
