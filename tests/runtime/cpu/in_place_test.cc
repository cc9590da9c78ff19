// DTensors as feeds and outputs: state that passes from step to step without a copy.
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/runtime/exec/executor.h"
#include "runtime/plan/programs.h"
#include "runtime/plan/schedules.h"

namespace meshwork::in_place_test {
namespace {

using ::testing::ElementsAre;

class InPlaceTest : public testing::TestWithParam<int> {
 protected:
  std::unique_ptr<Executor> Make(std::string_view text, const std::set<std::string>& distributed,
                                 const InPlace& in_place) {
    return Executor::Create(ParseProgram(std::string(text)), backend_,
                            {.poison_padding = true, .distributed = distributed, .in_place = in_place},
                            &state_)
        .value();
  }
  static DTensor Filled(DTensor tensor, const std::vector<float>& values) {
    EXPECT_TRUE(Pack(Tensor::From<float>(tensor.type().shape, values), tensor).ok());
    return tensor;
  }
  static std::vector<float> Numbers(const DTensor& tensor) {
    const Tensor whole = Unpack(tensor, /*check_replicas=*/true).value();
    return {whole.values<float>().begin(), whole.values<float>().end()};
  }

  CpuBackend backend_{GetParam()};
  std::map<std::string, DTensor> state_;
};

constexpr std::string_view kSum = R"(mesh [x=2]
func step(%s: f32[2] of f32[3] {x}, %a: f32[2] of f32[3] {x}) {
  %n = add %s, %a : f32[2] of f32[3] {x}
  %m = neg %s : f32[2] of f32[3] {x}
  return n=%n, m=%m
})";

// The output of a step is fed to the next step, alternating between two tensors.
TEST_P(InPlaceTest, OutputsAreFeedsOfTheNextStep) {
  const auto executor = Make(kSum, {"s", "n"}, {});
  const DTensor one = Filled(executor->NewFeed("s").value(), {1, 2, 3}),
                two = executor->NewOutput("n").value();
  const Tensor a = Tensor::From<float>({3}, {10, 20, 30});
  auto bind = [&](const DTensor& from, const DTensor& to) {
    return executor
        ->Bind({.feeds = {{"a", a}}, .distributed_feeds = {{"s", from}}, .distributed_outputs = {{"n", to}}})
        .value();
  };
  BoundStep there = bind(one, two), back = bind(two, one);
  for (BoundStep* step : {&there, &back, &there}) ASSERT_TRUE(step->Run().ok());
  EXPECT_THAT(Numbers(two), ElementsAre(31, 62, 93));
  EXPECT_THAT(Numbers(one), ElementsAre(21, 42, 63)) << "what was fed is as it was";
}

// An op that reads the old value sees it, although the new value overwrites it.
TEST_P(InPlaceTest, AnOutputTakesThePlaceOfAFeed) {
  const auto executor = Make(kSum, {"s", "n", "m"}, {{"n", "s"}});
  const DTensor s = Filled(executor->NewFeed("s").value(), {1, 2, 3});
  const Tensor a = Tensor::From<float>({3}, {10, 20, 30});
  BoundStep step = executor->Bind({.feeds = {{"a", a}}, .distributed_feeds = {{"s", s}}}).value();
  for (int t = 0; t < 3; ++t) ASSERT_TRUE(step.Run().ok());
  EXPECT_THAT(Numbers(s), ElementsAre(31, 62, 93));
  EXPECT_EQ(step.distributed_outputs().at("n").instance(0), s.instance(0));
  EXPECT_THAT(Numbers(step.distributed_outputs().at("m")), ElementsAre(-21, -42, -63));
  EXPECT_EQ(executor->memory().variable_bytes, 0);
}

// Two sequences, each with its own cache, on one executor.
TEST_P(InPlaceTest, ACacheIsWrittenWhereItLies) {
  constexpr std::string_view kCache = R"(mesh [x=2]
func step(%cache: f32[4,1] of f32[4,2] {_,x}, %row: f32[1,1] of f32[1,2] {_,x}, %at: i32[1] {_}) {
  %next = dynamic_update_slice %at, %cache, %row dims=[0] : f32[4,1] of f32[4,2] {_,x}
  %all = reduce_sum %next dims=[0] : f32[1] of f32[2] {x}
  return next=%next, all=%all
})";
  const auto executor = Make(kCache, {"cache", "next"}, {{"next", "cache"}});
  for (const Instruction& instruction : ScheduleOf(*executor).instructions)
    EXPECT_NE(instruction.kind, Instruction::Kind::kAssign);
  Tensor row({F32, {1, 2}}), at({I32, {1}});
  std::vector<DTensor> caches;
  std::vector<BoundStep> steps;
  for (int s = 0; s < 2; ++s) {
    caches.push_back(executor->NewFeed("cache").value());
    steps.push_back(executor
                        ->Bind({.feeds = {{"row", row}, {"at", at}},
                                .outputs = executor->NewOutputs(),
                                .distributed_feeds = {{"cache", caches.back()}}})
                        .value());
  }
  for (int t = 0; t < 3; ++t) {
    for (int s = 0; s < 2; ++s) {
      at.mutable_values<int32_t>()[0] = t;
      row.mutable_values<float>()[0] = static_cast<float>(10 * s + t + 1);
      row.mutable_values<float>()[1] = static_cast<float>(-t);
      ASSERT_TRUE(steps[static_cast<size_t>(s)].Run().ok());
    }
  }
  EXPECT_THAT(Numbers(caches[0]), ElementsAre(1, 0, 2, -1, 3, -2, 0, 0));
  EXPECT_THAT(Numbers(caches[1]), ElementsAre(11, 0, 12, -1, 13, -2, 0, 0));
  EXPECT_THAT(steps[1].outputs().at("all").values<float>(), ElementsAre(36, -3));
}

TEST_P(InPlaceTest, TwoSwap) {
  constexpr std::string_view kSwap = R"(mesh [x=2]
func step(%a: f32[1] of f32[2] {x}, %b: f32[1] of f32[2] {x}) {
  return p=%b, q=%a
})";
  const auto executor = Make(kSwap, {"a", "b", "p", "q"}, {{"p", "a"}, {"q", "b"}});
  const DTensor a = Filled(executor->NewFeed("a").value(), {1, 2});
  const DTensor b = Filled(executor->NewFeed("b").value(), {3, 4});
  BoundStep step = executor->Bind({.distributed_feeds = {{"a", a}, {"b", b}}}).value();
  ASSERT_TRUE(step.Run().ok());
  EXPECT_THAT(Numbers(a), ElementsAre(3, 4));
  EXPECT_THAT(Numbers(b), ElementsAre(1, 2));
}

// State that a loop carries, and state that the loop's body reads.
TEST_P(InPlaceTest, LoopsSeeWhatIsBound) {
  constexpr std::string_view kLoop = R"(mesh [x=2]
func step(%s: f32[2] of f32[4] {x}, %r: f32[2] of f32[4] {x}) {
  %n = scan %s, %r length=3 (var %c: f32[2] of f32[4] {x}, %r: f32[2] of f32[4] {x}) {
    %d = add %c, %r : f32[2] of f32[4] {x}
    update %c = %d
  } : f32[2] of f32[4] {x}
  %m = add %r, %r : f32[2] of f32[4] {x}
  return n=%n, m=%m
})";
  const auto executor = Make(kLoop, {"s", "r", "n", "m"}, {{"n", "s"}, {"m", "r"}});
  for (int round = 0; round < 2; ++round) {
    const DTensor s = Filled(executor->NewFeed("s").value(), {1, 2, 3, 4});
    const DTensor r = Filled(executor->NewFeed("r").value(), {10, 10, 10, 20});
    BoundStep step = executor->Bind({.distributed_feeds = {{"s", s}, {"r", r}}}).value();
    ASSERT_TRUE(step.Run().ok());
    ASSERT_TRUE(step.Run().ok());
    EXPECT_THAT(Numbers(s), ElementsAre(91, 92, 93, 184));
    EXPECT_THAT(Numbers(r), ElementsAre(40, 40, 40, 80));
  }
}

INSTANTIATE_TEST_SUITE_P(Workers, InPlaceTest, testing::Values(1, 2));

}  // namespace
}  // namespace meshwork::in_place_test
