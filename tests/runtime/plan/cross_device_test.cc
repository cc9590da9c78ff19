// Local programs whose all_reduces a cross-device op makes give the results of the same programs without it.
#include "meshwork/runtime/plan/cross_device.h"

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/runtime/cpu/cross_device_ops.h"
#include "meshwork/runtime/plan/loop.h"
#include "meshwork/runtime/plan/sharing.h"
#include "meshwork/runtime/plan/step_plan.h"
#include "meshwork/runtime/tensor/tensor_compare.h"
#include "runtime/plan/programs.h"
#include "runtime/plan/random_program.h"
#include "runtime/plan/schedules.h"
#include "support/cross_device_ops.h"
#include "support/cross_device_programs.h"
#include "support/long_tests.h"

namespace meshwork::cross_device_test {
namespace {

using OpsPtr = std::shared_ptr<CrossDeviceOps>;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

CrossDeviceRun RunWith(const Program& program, const Tensors& feeds, const ExecutorOptions& options,
                       int workers = 1, int steps = 2) {
  CpuBackend backend(workers);
  return RunCrossDevice(program, feeds, options, backend, steps);
}

TEST(CrossDeviceTest, GivesTheNumbersOfTheBackend) {
  const std::vector<OpsPtr> all = {ReductionToOneDevice(), HierarchicalCopyAllReduce().value(),
                                   RingAllReduce(), std::make_shared<BackwardsOps>()};
  for (const std::string_view text : kCrossDevicePrograms) {
    const Program program = ParseProgram(text);
    const Tensors feeds = CrossDeviceFeeds(program);
    const CrossDeviceRun expected = RunWith(program, feeds, {});
    ASSERT_EQ(expected.error, "");
    for (const OpsPtr& ops : all)
      for (const int64_t bytes_per_pack : {0, 20, 28, 1 << 20})
        for (const int workers : {1, 2, 3})
          for (const bool share : {true, false})
            for (const bool atomic : {true, false}) {
              SCOPED_TRACE(fmt::format("{} packs={} workers={} share={} atomic={}\n{}", ops->name(),
                                       bytes_per_pack, workers, share, atomic, text));
              const CrossDeviceRun ran = RunWith(program, feeds,
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

// The number of workers does not change the op's results: packs are cut at the same places.
TEST(CrossDeviceTest, TheNumberOfWorkersChangesNoBit) {
  const Program program = ParseProgram(R"(mesh [x=3]
func step(%a: f32[1,200001] of f32[3,200001] {x,_}) {
  %p = reduce_sum %a dims=[0] : f32[200001] {_ | sum:x}
  %s = all_reduce %p axes=(x) op=sum : f32[200001] {_}
  return s=%s
})");
  const Tensors feeds = {{"a", Rough({F32, {3, 200001}})}};
  for (const OpsPtr& ops : {ReductionToOneDevice(), HierarchicalCopyAllReduce().value(), RingAllReduce()}) {
    const CrossDeviceRun one = RunWith(program, feeds, {.cross_device_ops = ops});
    ASSERT_EQ(one.error, "");
    for (const int workers : {2, 3, 5})
      ExpectBitwiseEqual(RunWith(program, feeds, {.cross_device_ops = ops}, workers).outputs, one.outputs);
  }
}

TEST(CrossDeviceTest, PacksAreFilledInOrder) {
  const Program program = ParseProgram(kCrossDevicePrograms[1]);
  const auto packs = [&](int64_t bytes_per_pack) {
    const auto ops = std::make_shared<BackwardsOps>();
    EXPECT_EQ(RunWith(program, CrossDeviceFeeds(program),
                      {.cross_device_ops = ops, .bytes_per_pack = bytes_per_pack}, 2, 1)
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

// Each group is reduced by itself, and the op gets the numbers of the group's devices.
TEST(CrossDeviceTest, GroupsAreReducedByThemselves) {
  const auto ops = std::make_shared<BackwardsOps>();
  const Program program = ParseProgram(R"(mesh [x=2, y=3]
func step(%a: f32[2,1] of f32[4,3] {x,y}) {
  %p = reduce_sum %a dims=[0] : f32[1] of f32[3] {y | sum:x}
  %s = all_reduce %p axes=(x) op=sum : f32[1] of f32[3] {y}
  return s=%s
})");
  const CrossDeviceRun ran =
      RunWith(program, {{"a", Ramp({F32, {4, 3}})}}, {.check_replicas = true, .cross_device_ops = ops}, 1, 1);
  ASSERT_EQ(ran.error, "");
  EXPECT_THAT(ran.outputs.at("s").values<float>(), ElementsAre(22, 26, 30));
  EXPECT_EQ(ops->reductions, 3);
  EXPECT_THAT(ops->devices, ElementsAre(2, 5));
}

TEST(CrossDeviceTest, ThePlanSaysWhatIsCalled) {
  auto graph = std::make_shared<const Graph>(LowerLoops(ParseProgram(kCrossDevicePrograms[1]).body));
  std::vector<InstanceMap> variables;
  for (const Argument& argument : graph->arguments())
    variables.emplace_back(graph->mesh(), graph->value(argument.value).layout->ShardedAxes());
  const std::string plan = ToString(
      BuildStepPlan(graph, variables, {.cross_device = CrossDevicePlan{.bytes_per_pack = 64}}).value());
  EXPECT_THAT(plan, HasSubstr("\nall_reduce by 2 calls of a cross-device op, 6 transfers of 30 elements: "));
  EXPECT_THAT(plan, HasSubstr("\nall_reduce, 6 transfers of 21 elements: "));  // into the pack, and out of it
}

// By a backend that makes an algorithm's copies and sums itself. 70001 elements are a piece of 65536 and a short piece.
TEST(CrossDeviceTest, AnAlgorithmIsPlannedInRounds) {
  const auto plan_of = [](int64_t elements, const CrossDeviceOps& ops) {
    const Program program = ParseProgram(fmt::format(R"(mesh [x=3]
func step(%a: f32[1,{0}] of f32[3,{0}] {{x,_}}) {{
  %p = reduce_sum %a dims=[0] : f32[{0}] {{_ | sum:x}}
  %s = all_reduce %p axes=(x) op=sum : f32[{0}] {{_}}
  return s=%s
}})",
                                                     elements));
    const std::vector<InstanceMap> none(1);
    const CrossDevicePlan options{.in_parts = true, .algorithm = ops.algorithm(), .makes_moves = true};
    const StepPlan plan =
        BuildStepPlan(std::make_shared<const Graph>(program.body), none, {.cross_device = options}).value();
    std::vector<size_t> rounds;  // the transfers of each
    for (const Step& step : plan.steps)
      if (const auto* const copies = std::get_if<CopyStep>(&step);
          copies != nullptr && copies->kind == CopyStep::Kind::kCollective) {
        EXPECT_TRUE(copies->calls.empty());
        rounds.push_back(copies->transfers.size());
      }
    return rounds;
  };
  EXPECT_THAT(plan_of(7, *ReductionToOneDevice()), ElementsAre(1, 2));
  EXPECT_THAT(plan_of(7, *HierarchicalCopyAllReduce().value()), ElementsAre(2, 1, 1, 1));
  EXPECT_THAT(plan_of(7, *RingAllReduce()), ElementsAre(3, 3, 3, 3));
  EXPECT_THAT(plan_of(70001, *RingAllReduce()), ElementsAre(6, 6, 6, 6));
  EXPECT_THAT(plan_of(10 * 65536, *RingAllReduce()), ElementsAre(3, 3, 3, 3));
}

// Wrong moves are refused before a step runs, whoever would execute them.
TEST(CrossDeviceTest, WrongMovesAreNotPlanned) {
  const Program program = ParseProgram(kCrossDevicePrograms[1]);
  using How = MistakenMoves::How;
  for (const How how : {How::kBeyond, How::kNoSource, How::kWritesTerm, How::kAddsItself, How::kRoom,
                        How::kNoDevice, How::kSameRound}) {
    const auto ops = MakeCrossDeviceOps(std::make_shared<MistakenMoves>(how));
    EXPECT_THAT(RunWith(program, CrossDeviceFeeds(program), {.cross_device_ops = ops}, 1, /*steps=*/0).error,
                HasSubstr("the cross-device op \"mistaken\", over 3 devices: "))
        << static_cast<int>(how);
  }
}

// A sum that goes on to another domain exists only as the first device's result.
TEST(CrossDeviceTest, OtherResultsAreNotPlanned) {
  const auto graph = std::make_shared<const Graph>(ParseGraph(R"(mesh [x=2, y=3]
func step(%a: f32[1,4] of f32[6,4] {(x,y),_}) {
  %p = reduce_sum %a dims=[0] : f32[4] {_ | sum:(x,y)}
  %q = all_reduce %p axes=(y) op=sum : f32[4] {_ | sum:x}
  %s = all_reduce %q axes=(x) op=sum : f32[4] {_}
  return s=%s
})")
                                                       .value());
  const std::vector<InstanceMap> none(1);
  const Domain domain(Placement::Create(graph->mesh(), 2).value(), 0);
  const auto error = [&](const CrossDeviceAlgorithm& algorithm, bool makes_moves) {
    const CrossDevicePlan plan{.in_parts = true, .algorithm = &algorithm, .makes_moves = makes_moves};
    return std::string(
        MessageOf(BuildStepPlan(graph, none, {.domain = domain, .cross_device = plan}).status()));
  };
  for (const bool makes_moves : {true, false}) {
    EXPECT_EQ(error(BackwardsAlgorithm(), makes_moves), "");
    EXPECT_THAT(error(MistakenMoves(MistakenMoves::How::kOtherResult), makes_moves),
                HasSubstr("the cross-device op \"mistaken\", over 3 devices: it touches result 1"));
  }
}

struct GivenMove {
  int64_t begin, end;
  CrossDevicePlace to;
  std::vector<CrossDevicePlace> from;
};

// Two rounds of the same moves.
class GivenMoves : public BackwardsAlgorithm {
 public:
  explicit GivenMoves(std::vector<GivenMove> moves) : moves_(std::move(moves)) {}
  bool UsesRoom(size_t) const override { return true; }
  void AllReduce(const CrossDeviceSize&, size_t, CrossDeviceMoves& moves) const override {
    for (int round = 0; round < 2; ++round) {
      for (const auto& [begin, end, to, from] : moves_) moves.Move(begin, end, to, from);
      moves.NextRound();
    }
  }

 private:
  const std::vector<GivenMove> moves_;
};

// True if `a` writes an element that `b` writes or reads.
bool Collide(const GivenMove& a, const GivenMove& b) {
  const bool reads = std::find(b.from.begin(), b.from.end(), a.to) != b.from.end();
  return (a.to == b.to || reads) && std::max(a.begin, b.begin) < std::min(a.end, b.end);
}

TEST(CrossDeviceTest, MovesOfARoundThatCollideAreFound) {
  std::mt19937 random(5);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  const std::vector<CrossDevicePlace> places = {ResultOf(0), ResultOf(1), RoomBetween(), TermOf(0),
                                                TermOf(2)};
  int wrong = 0;
  for (int trial = 0; trial < 5000; ++trial) {
    std::vector<GivenMove> moves;
    bool collides = false;
    for (int64_t m = 2 + below(4); m > 0; --m) {
      const int64_t begin = below(9), end = begin + below(10 - begin);
      GivenMove move{begin, end, places[static_cast<size_t>(below(3))], {}};
      move.from.push_back(places[static_cast<size_t>(below(5))]);
      const CrossDevicePlace more = places[static_cast<size_t>(below(5))];
      if (more != move.to) move.from.push_back(more);
      for (const GivenMove& other : moves) collides |= Collide(move, other) || Collide(other, move);
      moves.push_back(std::move(move));
    }
    const absl::Status status = CheckMoves(GivenMoves(moves), CrossDeviceFunction::kAllReduce, {3, 9}, 0);
    ASSERT_EQ(!status.ok(), collides) << trial << " " << status;
    wrong += collides;
  }
  EXPECT_GT(wrong, 1000);
  EXPECT_LT(wrong, 4000);
}

// A wrong op is detected in every way in which a step may run.
TEST(CrossDeviceTest, DevicesWithoutAResultAreSeen) {
  for (const std::string_view text : kCrossDevicePrograms) {
    const Program program = ParseProgram(text);
    for (const int workers : {1, 2})
      for (const bool poison : {true, false})
        for (const OpsPtr& ops :
             {OpsPtr(std::make_shared<ForgetsTheLast>()), OpsPtr(std::make_shared<KeepsToItself>())})
          EXPECT_THAT(
              RunWith(program, CrossDeviceFeeds(program),
                      {.poison_padding = poison, .check_replicas = true, .cross_device_ops = ops}, workers)
                  .error,
              HasSubstr("but its replicas differ"));
  }
}

// Without a cross-device op, a sum is the same over its group; with an op it varies, unless it crosses domains.
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
  // The axis x crosses domains.
  EXPECT_THAT(varying(AxisSet(AxisList{0})), ElementsAre("(x,y)", "(x,y)", "(x)", "()", "()"));
}

}  // namespace
}  // namespace meshwork::cross_device_test
