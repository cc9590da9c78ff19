// Local programs whose all_reduces a cross-device op makes, beside the same programs without.
#include "meshwork/runtime/cross_device.h"

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/runtime/cpu/cross_device_ops.h"
#include "meshwork/runtime/loop.h"
#include "meshwork/runtime/sharing.h"
#include "meshwork/runtime/step_plan.h"
#include "meshwork/runtime/tensor_compare.h"
#include "runtime/programs.h"
#include "runtime/random_program.h"
#include "runtime/schedules.h"
#include "support/cross_device_ops.h"
#include "support/long_tests.h"

namespace meshwork {
namespace {

using OpsPtr = std::shared_ptr<CrossDeviceOps>;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Ran {
  std::string error;
  Tensors outputs, variables;
};

Ran RunWith(const Program& program, const Tensors& feeds, const ExecutorOptions& options, int workers = 1,
            int steps = 2) {
  Ran ran;
  CpuBackend backend(workers);
  std::map<std::string, DTensor> state;
  const auto executor = Executor::Create(program, backend, options, &state);
  if (!executor.ok()) return {std::string(MessageOf(executor.status()))};
  for (int step = 0; step < steps && ran.error.empty(); ++step)
    ran.error = MessageOf((*executor)->Run(feeds, &ran.outputs));
  for (const auto& [name, variable] : state) ran.variables[name] = Unpack(variable).value();
  return ran;
}

// One of each kind: several axes, of which one does not take part; several values at once, of several dtypes; a sum of what
// is the same everywhere; a loop; other reductions.
constexpr std::string_view kPrograms[] = {
    R"(mesh [x=2, y=3]
func step(%a: f32[2,5] of f32[4,5] {x,_}, %b: i32[1,2] of i32[3,2] {y,_}, var %w: f32[5] {_}) {
  %p = reduce_sum %a dims=[0] : f32[5] {_ | sum:x}
  %s = all_reduce %p axes=(x) op=sum : f32[5] {_}
  %m = reduce_max %b dims=[0] : i32[2] {_ | max:y}
  %t = all_reduce %m axes=(y) op=max : i32[2] {_}
  %n = add %w, %s : f32[5] {_}
  update %w = %n
  return s=%s, t=%t
})",
    R"(mesh [x=3]
func step(%a: f32[2,5] of f32[5,5] {x,_}, %b: f32[2,2] of f32[5,2] {x,_}, %c: i64[2,3] of i64[5,3] {x,_},
          var %w: f32[5] {_}) {
  %am = mask_padding %a dims=[0] op=sum : f32[2,5] of f32[5,5] {x,_}
  %bm = mask_padding %b dims=[0] op=sum : f32[2,2] of f32[5,2] {x,_}
  %cm = mask_padding %c dims=[0] op=sum : i64[2,3] of i64[5,3] {x,_}
  %p = reduce_sum %am dims=[0] : f32[5] {_ | sum:x}
  %q = reduce_sum %bm dims=[0] : f32[2] {_ | sum:x}
  %r = reduce_sum %cm dims=[0] : i64[3] {_ | sum:x}
  %s, %t, %u = all_reduce %p, %q, %r axes=(x) op=sum : f32[5] {_}, f32[2] {_}, i64[3] {_}
  %n = add %w, %s : f32[5] {_}
  update %w = %n
  return s=%s, t=%t, u=%u
})",
    R"(mesh [x=2, y=2]
func step(%a: f32[2,3] of f32[4,6] {x,y}, var %w: f32[3] of f32[6] {y}) {
  %l = scan %w, %a length=3 (var %c: f32[3] of f32[6] {y}, %b: f32[2,3] of f32[4,6] {x,y}) {
    %p = reduce_sum %b dims=[0] : f32[3] of f32[6] {y | sum:x}
    %s = all_reduce %p axes=(x) op=sum : f32[3] of f32[6] {y}
    %d = add %c, %s : f32[3] of f32[6] {y}
    update %c = %d
  } : f32[3] of f32[6] {y}
  update %w = %l
  return l=%l
})"};

Tensors FeedsOf(const Program& program) {
  Tensors feeds;
  const Graph& body = program.body;
  for (const Argument& argument : body.arguments())
    if (!argument.is_variable)
      feeds[body.value(argument.value).name] = Ramp(body.value(argument.value).global);
  return feeds;
}

TEST(CrossDeviceTest, GivesTheNumbersOfTheBackend) {
  const std::vector<OpsPtr> all = {ReductionToOneDevice(), HierarchicalCopyAllReduce().value(),
                                   RingAllReduce(), std::make_shared<BackwardsOps>()};
  for (const std::string_view text : kPrograms) {
    const Program program = ParseProgram(text);
    const Tensors feeds = FeedsOf(program);
    const Ran expected = RunWith(program, feeds, {});
    ASSERT_EQ(expected.error, "");
    for (const OpsPtr& ops : all)
      for (const int64_t bytes_per_pack : {0, 20, 28, 1 << 20})
        for (const int workers : {1, 2, 3})
          for (const bool share : {true, false})
            for (const bool atomic : {true, false}) {
              SCOPED_TRACE(fmt::format("{} packs={} workers={} share={} atomic={}\n{}", ops->name(),
                                       bytes_per_pack, workers, share, atomic, text));
              const Ran ran = RunWith(program, feeds,
                                      {.share = share,
                                       .poison_padding = true,
                                       .check_replicas = true,
                                       .atomic = atomic,
                                       .cross_device_ops = ops,
                                       .bytes_per_pack = bytes_per_pack},
                                      workers);
              ASSERT_EQ(ran.error, "");
              ExpectBitwiseEqual(ran.outputs, expected.outputs);  // whole numbers: exact
              ExpectBitwiseEqual(ran.variables, expected.variables);
            }
  }
}

TEST(CrossDeviceTest, RandomProgramsGiveTheirNumbers) {
  std::mt19937 random(7);
  int64_t calls = 0;
  for (int round = 0; round < (LongTests() ? 400 : 60); ++round) {
    const DrawnProgram drawn = ProgramDraw(random).Make();
    const auto own = std::make_shared<BackwardsOps>();
    for (const OpsPtr& ops : {OpsPtr(own), RingAllReduce(), HierarchicalCopyAllReduce().value()}) {
      const int64_t bytes_per_pack = static_cast<int64_t>(random() % 3) * 100;
      const auto workers = static_cast<int>(1 + random() % 3);
      SCOPED_TRACE(
          fmt::format("{} packs={} workers={}\n{}", ops->name(), bytes_per_pack, workers, drawn.text));
      CpuBackend backend(workers);
      std::map<std::string, DTensor> state;
      const auto executor = Executor::Create(ParseProgram(drawn.text), backend,
                                             {.poison_padding = true,
                                              .check_replicas = true,
                                              .atomic = random() % 2 == 0,
                                              .cross_device_ops = ops,
                                              .bytes_per_pack = bytes_per_pack},
                                             &state)
                                .value();
      for (const auto& [name, value] : drawn.initial) ASSERT_EQ(MessageOf(Pack(value, state.at(name))), "");
      Tensors outputs, variables;
      ASSERT_EQ(MessageOf(executor->Run(drawn.feeds, &outputs)), "");
      for (const auto& [name, variable] : state) variables[name] = Unpack(variable).value();
      ExpectEqualValues(outputs, drawn.outputs);
      ExpectEqualValues(variables, drawn.variables);
    }
    calls += own->reductions;
  }
  EXPECT_GT(calls, 60);
}

// The op's own numbers, whatever the workers: packs are cut at the same places.
TEST(CrossDeviceTest, TheNumberOfWorkersChangesNoBit) {
  const Program program = ParseProgram(R"(mesh [x=3]
func step(%a: f32[1,200001] of f32[3,200001] {x,_}) {
  %p = reduce_sum %a dims=[0] : f32[200001] {_ | sum:x}
  %s = all_reduce %p axes=(x) op=sum : f32[200001] {_}
  return s=%s
})");
  const Tensors feeds = {{"a", Rough({F32, {3, 200001}})}};
  for (const OpsPtr& ops : {ReductionToOneDevice(), HierarchicalCopyAllReduce().value(), RingAllReduce()}) {
    const Ran one = RunWith(program, feeds, {.cross_device_ops = ops});
    ASSERT_EQ(one.error, "");
    for (const int workers : {2, 3, 5})
      ExpectBitwiseEqual(RunWith(program, feeds, {.cross_device_ops = ops}, workers).outputs, one.outputs);
  }
}

TEST(CrossDeviceTest, PacksAreFilledInOrder) {
  const Program program = ParseProgram(kPrograms[1]);
  const auto packs = [&](int64_t bytes_per_pack) {
    const auto ops = std::make_shared<BackwardsOps>();
    EXPECT_EQ(
        RunWith(program, FeedsOf(program), {.cross_device_ops = ops, .bytes_per_pack = bytes_per_pack}, 2, 1)
            .error,
        "");
    EXPECT_THAT(ops->devices, ElementsAre(0, 1, 2));
    return ops->packs;
  };
  EXPECT_THAT(packs(0), ElementsAre(5, 2, 3));   // f32[5], f32[2], i64[3]
  EXPECT_THAT(packs(27), ElementsAre(5, 2, 3));  // 28 bytes are too many
  EXPECT_THAT(packs(28), ElementsAre(7, 3));
  EXPECT_THAT(packs(1 << 20), ElementsAre(7, 3));  // not of two dtypes
}

// Each group by itself, with the numbers of its devices.
TEST(CrossDeviceTest, GroupsAreReducedByThemselves) {
  const auto ops = std::make_shared<BackwardsOps>();
  const Program program = ParseProgram(R"(mesh [x=2, y=3]
func step(%a: f32[2,1] of f32[4,3] {x,y}) {
  %p = reduce_sum %a dims=[0] : f32[1] of f32[3] {y | sum:x}
  %s = all_reduce %p axes=(x) op=sum : f32[1] of f32[3] {y}
  return s=%s
})");
  const Ran ran =
      RunWith(program, {{"a", Ramp({F32, {4, 3}})}}, {.check_replicas = true, .cross_device_ops = ops}, 1, 1);
  ASSERT_EQ(ran.error, "");
  EXPECT_THAT(ran.outputs.at("s").values<float>(), ElementsAre(22, 26, 30));
  EXPECT_EQ(ops->reductions, 3);
  EXPECT_THAT(ops->devices, ElementsAre(2, 5));
}

TEST(CrossDeviceTest, ThePlanSaysWhatIsCalled) {
  auto graph = std::make_shared<const Graph>(LowerLoops(ParseProgram(kPrograms[1]).body));
  std::vector<InstanceMap> variables;
  for (const Argument& argument : graph->arguments())
    variables.emplace_back(graph->mesh(), graph->value(argument.value).layout->ShardedAxes());
  const std::string plan = ToString(
      BuildStepPlan(graph, variables, {.cross_device = CrossDevicePlan{.bytes_per_pack = 64}}).value());
  EXPECT_THAT(plan, HasSubstr("\nall_reduce by 2 calls of a cross-device op, 6 transfers of 30 elements: "));
  EXPECT_THAT(plan, HasSubstr("\nall_reduce, 6 transfers of 21 elements: "));  // into the pack, and out of it
}

// A wrong op, in every way in which a step may run.
TEST(CrossDeviceTest, DevicesWithoutAResultAreSeen) {
  for (const std::string_view text : kPrograms) {
    const Program program = ParseProgram(text);
    for (const int workers : {1, 2})
      for (const bool poison : {true, false})
        for (const OpsPtr& ops :
             {OpsPtr(std::make_shared<ForgetsTheLast>()), OpsPtr(std::make_shared<KeepsToItself>())})
          EXPECT_THAT(
              RunWith(program, FeedsOf(program),
                      {.poison_padding = poison, .check_replicas = true, .cross_device_ops = ops}, workers)
                  .error,
              HasSubstr("but its replicas differ"));
  }
}

// Without a cross-device op, nothing varies more than before; with one, sums do, unless they go on to other domains.
TEST(CrossDeviceTest, SumsVaryOverTheirGroup) {
  const Graph graph = ParseGraph(R"(mesh [x=2, y=2]
func step(%a: f32[1,4] of f32[4,4] {(x,y),_}) {
  %p = reduce_sum %a dims=[0] : f32[4] {_ | sum:(x,y)}
  %q = all_reduce %p axes=(y) op=sum : f32[4] {_ | sum:x}
  %s = all_reduce %q axes=(x) op=sum : f32[4] {_}
  %t = neg %s : f32[4] {_}
  return t=%t
})")
                          .value();
  const auto varying = [&](const std::optional<AxisSet>& own_results) {
    std::vector<std::string> axes;
    for (const AxisSet& set : VaryingAxes(graph, {AllAxes(graph.mesh())}, /*share=*/true, own_results))
      axes.push_back(graph.mesh().AxesToString(set.ToList()));
    return axes;
  };
  EXPECT_THAT(varying({}), ElementsAre("(x,y)", "(x,y)", "(x)", "()", "()"));
  EXPECT_THAT(varying(AxisSet()), ElementsAre("(x,y)", "(x,y)", "(x,y)", "(x,y)", "(x,y)"));
  // x leads to other domains.
  EXPECT_THAT(varying(AxisSet(AxisList{0})), ElementsAre("(x,y)", "(x,y)", "(x)", "()", "()"));
}

}  // namespace
}  // namespace meshwork
