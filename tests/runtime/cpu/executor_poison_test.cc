// Poisoned padding: ops that read it show NaN, and it is written anew before each step.
#include <cmath>
#include <cstdint>
#include <map>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/runtime/exec/executor.h"
#include "runtime/plan/programs.h"

namespace meshwork::executor_poison_test {
namespace {

using ::testing::ElementsAre;

TEST(ExecutorTest, PoisonAndComparisonsAreOnInDebugBuildsOnly) {
  EXPECT_EQ(ExecutorOptions().poison_padding, kDebugBuild);
  EXPECT_EQ(ExecutorOptions().check_replicas, kDebugBuild);
  EXPECT_FALSE(ExecutorOptions().profile);
}

// Sums over a padded dim without a mask, of an input and of a variable that was never packed.
TEST(ExecutorTest, PoisonShowsThatPaddingIsRead) {
  const Program program = ParseProgram(R"(mesh [x=4]
func step(%a: f32[3] of f32[10] {x}, var %w: f32[3] of f32[10] {x}) {
  %p = reduce_sum %a dims=[0] : f32[] of f32[] {| sum:x}
  %s = all_reduce %p axes=(x) op=sum : f32[] of f32[] {}
  %q = reduce_sum %w dims=[0] : f32[] of f32[] {| sum:x}
  %t = all_reduce %q axes=(x) op=sum : f32[] of f32[] {}
  return s=%s, t=%t
})");
  for (bool share : {true, false}) {
    const RunResult poisoned = RunProgram(program, {{"a", Ramp({F32, {10}})}}, {}, {2, share, true});
    EXPECT_TRUE(std::isnan(poisoned.outputs.at("s").Scalar().value()));
    EXPECT_TRUE(std::isnan(poisoned.outputs.at("t").Scalar().value()));
  }
}

TEST(ExecutorTest, PoisonFillsThePaddingOfVariablesBeforeEachStep) {
  const Program program = ParseProgram(R"(mesh [x=2]
func step(var %w: i32[2] of i32[3] {x}, var %v: i32[2] of i32[3] {x}) {
  %c = constant value=5 dtype=i32 shape=[2] : i32[2] of i32[3] {x}
  update %v = %c
})");
  CpuBackend backend(1);
  std::map<std::string, DTensor> state;
  auto executor = Executor::Create(program, backend, {.poison_padding = true}, &state).value();
  const auto padding = [&](const char* name) {
    return reinterpret_cast<const int32_t*>(state.at(name).instance(1))[1];
  };
  ASSERT_TRUE(executor->Run({}, nullptr).ok());
  EXPECT_EQ(padding("w"), -1);
  reinterpret_cast<int32_t*>(state.at("w").instance(1))[1] = 7;
  ASSERT_TRUE(executor->Run({}, nullptr).ok());
  EXPECT_EQ(padding("w"), -1);
  EXPECT_THAT(Unpack(state.at("w")).value().values<int32_t>(), ElementsAre(0, 0, 0));
  EXPECT_THAT(Unpack(state.at("v")).value().values<int32_t>(), ElementsAre(5, 5, 5));
}

}  // namespace
}  // namespace meshwork::executor_poison_test
