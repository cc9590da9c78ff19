// Steps that take effect as a whole (ExecutorOptions::atomic), in one domain. tests/domains/atomic_test.cc has several.
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/runtime/exec/executor.h"
#include "meshwork/runtime/exec/step_record.h"
#include "runtime/plan/programs.h"

namespace meshwork::atomic_test {
namespace {

using ::testing::ElementsAre;

class AtomicTest : public testing::TestWithParam<int> {  // the parameter: number of workers
 protected:
  std::unique_ptr<Executor> Make(std::string_view text, bool atomic = true) {
    return Executor::Create(ParseProgram(text), backend_,
                            {.poison_padding = true,
                             .check_replicas = true,
                             .atomic = atomic,
                             .record = atomic ? record_ : nullptr},
                            &state_)
        .value();
  }
  void Set(const std::string& name, const std::vector<float>& values) {
    ASSERT_TRUE(Pack(Tensor::From<float>(state_.at(name).type().shape, values), state_.at(name)).ok());
  }
  std::vector<float> Get(const std::string& name) const {
    const Tensor whole = Unpack(state_.at(name), /*check_replicas=*/true).value();
    return {whole.values<float>().begin(), whole.values<float>().end()};
  }

  CpuBackend backend_{GetParam()};
  std::map<std::string, DTensor> state_;
  std::shared_ptr<StepRecord> record_ = std::make_shared<StepRecord>();
};

// Two variables that swap, one that is doubled, one that stays, and one that takes another variable's old value.
constexpr std::string_view kSwap = R"(mesh [x=2]
func step(var %v: f32[2] of f32[3] {x}, var %w: f32[2] of f32[3] {x}, var %n: f32[2] of f32[3] {x},
          var %s: f32[2] of f32[3] {x}, var %o: f32[2] of f32[3] {x}) {
  %m = add %n, %n : f32[2] of f32[3] {x}
  update %v = %w
  update %w = %v
  update %n = %m
  update %s = %s
  update %o = %n
  return old=%n, new=%m
})";

TEST_P(AtomicTest, VariablesExchangeTheirPlacesAndAreNotCopied) {
  const auto executor = Make(kSwap);
  Set("v", {1, 2, 3});
  Set("w", {4, 5, 6});
  Set("n", {1, 1, 1});
  Set("s", {7, 8, 9});
  EXPECT_FALSE(state_.at("s").has_spare());
  const std::byte *first = state_.at("n").instance(0), *second = state_.at("n").spare(0);
  BoundStep step = executor->Bind({}, executor->NewOutputs()).value();
  for (int steps = 1; steps <= 3; ++steps) {
    ASSERT_TRUE(step.Run().ok());
    EXPECT_THAT(Get(steps % 2 == 0 ? "v" : "w"), ElementsAre(1, 2, 3));
    EXPECT_THAT(Get(steps % 2 == 0 ? "w" : "v"), ElementsAre(4, 5, 6));
    const auto grown = static_cast<float>(1 << steps);
    EXPECT_THAT(Get("n"), ElementsAre(grown, grown, grown));
    EXPECT_THAT(Get("o"), ElementsAre(grown / 2, grown / 2, grown / 2));
    EXPECT_THAT(Get("s"), ElementsAre(7, 8, 9));
    EXPECT_EQ(step.outputs().at("old").values<float>()[2], grown / 2);
    EXPECT_EQ(step.outputs().at("new").values<float>()[2], grown);
    EXPECT_EQ(state_.at("n").instance(0), steps % 2 == 0 ? first : second);
    EXPECT_EQ(record_->done(), steps);
  }
  EXPECT_EQ(executor->memory().variable_bytes, 5 * 2 * 2 * 4);
  EXPECT_EQ(executor->memory().spare_bytes, 4 * 2 * 2 * 4);
}

// Programs prepared before the spares existed, and after.
TEST_P(AtomicTest, AllProgramsSeeWhatTheLastStepLeft) {
  constexpr std::string_view kTripled = R"(mesh [x=2]
func f(var %n: f32[2] of f32[3] {x}) {
  %m = add %n, %n : f32[2] of f32[3] {x}
  %k = add %m, %n : f32[2] of f32[3] {x}
  return k=%k
})";
  constexpr std::string_view kZero = R"(mesh [x=2]
func f(var %n: f32[2] of f32[3] {x}) {
  %z = sub %n, %n : f32[2] of f32[3] {x}
  update %n = %z
})";
  const auto before = Make(kTripled, /*atomic=*/false);
  const auto step = Make(kSwap);
  const auto after = Make(kTripled, /*atomic=*/false), zero = Make(kZero, /*atomic=*/false);
  Set("n", {1, 2, 3});
  for (int steps = 1; steps <= 3; ++steps) {
    ASSERT_TRUE(step->Run({}, nullptr).ok());
    for (Executor* reads : {before.get(), after.get()}) {
      Tensors outputs;
      ASSERT_TRUE(reads->Run({}, &outputs).ok());
      EXPECT_EQ(outputs.at("k").values<float>()[2], 9.0f * static_cast<float>(1 << steps));
    }
  }
  ASSERT_TRUE(zero->Run({}, nullptr).ok());
  EXPECT_THAT(Get("n"), ElementsAre(0, 0, 0));
  ASSERT_TRUE(step->Run({}, nullptr).ok());
  EXPECT_THAT(Get("n"), ElementsAre(0, 0, 0));
}

TEST_P(AtomicTest, AStepIsUndoneOnce) {
  const auto step = Make(kSwap);
  Set("v", {1, 2, 3});
  Set("n", {1, 2, 3});
  EXPECT_FALSE(record_->can_undo());
  record_->set_done(300);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(step->Run({}, nullptr).ok());
  EXPECT_EQ(record_->done(), 303);
  ASSERT_TRUE(record_->Undo().ok());
  EXPECT_EQ(record_->done(), 302);
  EXPECT_THAT(Get("n"), ElementsAre(4, 8, 12));
  EXPECT_THAT(Get("v"), ElementsAre(1, 2, 3));
  EXPECT_FALSE(record_->can_undo());
  EXPECT_EQ(record_->Undo().code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(step->Run({}, nullptr).ok());
  EXPECT_THAT(Get("n"), ElementsAre(8, 16, 24));
  EXPECT_EQ(record_->done(), 303);
}

// The carry of a loop lies in a spare, and the loop's body reads a variable.
TEST_P(AtomicTest, BodiesFindVariablesAndSpares) {
  constexpr std::string_view kLoop = R"(mesh [x=2]
func step(var %w: f32[2] of f32[3] {x}) {
  %n = scan %w, %w length=3 (var %c: f32[2] of f32[3] {x}, %a: f32[2] of f32[3] {x}) {
    %d = add %c, %a : f32[2] of f32[3] {x}
    update %c = %d
  } : f32[2] of f32[3] {x}
  update %w = %n
})";
  const auto step = Make(kLoop);
  Set("w", {1, 2, 3});
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(step->Run({}, nullptr).ok());
  EXPECT_THAT(Get("w"), ElementsAre(64, 128, 192));
  ASSERT_TRUE(record_->Undo().ok());
  EXPECT_THAT(Get("w"), ElementsAre(16, 32, 48));
  ASSERT_TRUE(step->Run({}, nullptr).ok());
  EXPECT_THAT(Get("w"), ElementsAre(64, 128, 192));
}

// The new values are already written when their replicas are compared.
TEST_P(AtomicTest, AStepWhoseReplicasDifferChangesNothing) {
  const auto step =
      Executor::Create(ParseProgram(R"(mesh [x=2]
func step(var %v: f32[3] of f32[3] {_}, var %w: f32[3] of f32[3] {_}) {
  %v1 = add %v, %v : f32[3] of f32[3] {_}
  %w1 = add %w, %w : f32[3] of f32[3] {_}
  update %v = %v1
  update %w = %w1
})"),
                       backend_, {.share = false, .check_replicas = true, .atomic = true, .record = record_},
                       &state_)
          .value();
  Set("v", {1, 2, 3});
  Set("w", {1, 2, 3});
  auto* const second = reinterpret_cast<float*>(state_.at("w").instance(1));
  second[2] = 4;
  const std::byte* const lies = state_.at("w").instance(0);
  EXPECT_EQ(step->Run({}, nullptr).code(), absl::StatusCode::kInternal);
  EXPECT_EQ(state_.at("w").instance(0), lies);
  EXPECT_THAT(Get("v"), ElementsAre(1, 2, 3));
  EXPECT_EQ(second[2], 4);
  EXPECT_EQ(record_->done(), 0);
  second[2] = 3;
  ASSERT_TRUE(step->Run({}, nullptr).ok());
  EXPECT_THAT(Get("w"), ElementsAre(2, 4, 6));
}

INSTANTIATE_TEST_SUITE_P(Workers, AtomicTest, testing::Values(1, 3));

}  // namespace
}  // namespace meshwork::atomic_test
