// Variables of an executor: the order of reads and updates within a step, and state that programs share.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/runtime/cpu/cpu_memory.h"
#include "meshwork/runtime/exec/executor.h"
#include "runtime/plan/programs.h"

namespace meshwork::executor_variables_test {
namespace {

using ::testing::ElementsAre;

RunResult RunUpdates(std::string_view updates, const RunMode& mode) {
  const Program program = ParseProgram(fmt::format(R"(mesh [x=2, y=2]
func step(%i: f32[2] of f32[3] {{x}}, var %a: f32[2] of f32[3] {{x}}, var %b: f32[2] of f32[3] {{x}},
          var %c: f32[2] of f32[3] {{x}}) {{
  {}
}})",
                                                   updates));
  return RunProgram(program, {{"i", Tensor::From<float>({3}, {7, 8, 9})}},
                    {{"a", Tensor::From<float>({3}, {1, 2, 3})},
                     {"b", Tensor::From<float>({3}, {10, 20, 30})},
                     {"c", Tensor::From<float>({3}, {100, 200, 300})}},
                    mode);
}

struct UpdateCase {
  std::string_view text;
  std::vector<float> a, b, c;  // after the step
  std::vector<float> output = {};
};

TEST(ExecutorTest, ReadsSeeTheOldValueUnlessTheyReadTheNewOne) {
  const UpdateCase cases[] = {
      {"update %a = %b\n update %b = %a", {10, 20, 30}, {1, 2, 3}, {100, 200, 300}},
      {"update %a = %b\n update %b = %c\n update %c = %a", {10, 20, 30}, {100, 200, 300}, {1, 2, 3}},
      {"update %a = %a\n update %b = %a", {1, 2, 3}, {1, 2, 3}, {100, 200, 300}},
      {"update %a = %b\n update %c = %b", {10, 20, 30}, {10, 20, 30}, {10, 20, 30}},
      {"update %a = %i\n update %c = %a", {7, 8, 9}, {10, 20, 30}, {1, 2, 3}},
      // The variable is updated in place.
      {"%n = add %a, %b : f32[2] of f32[3] {x}\n update %a = %n\n return y=%n",
       {11, 22, 33},
       {10, 20, 30},
       {100, 200, 300},
       {11, 22, 33}},
      // The old value is read after the new value is computed.
      {"%n = neg %a : f32[2] of f32[3] {x}\n %m = add %a, %n : f32[2] of f32[3] {x}\n update %a = %n\n "
       "return y=%m",
       {-1, -2, -3},
       {10, 20, 30},
       {100, 200, 300},
       {0, 0, 0}},
      // The old value is an output, or another variable's new value.
      {"%n = neg %a : f32[2] of f32[3] {x}\n update %a = %n\n return y=%a",
       {-1, -2, -3},
       {10, 20, 30},
       {100, 200, 300},
       {1, 2, 3}},
      {"%n = neg %a : f32[2] of f32[3] {x}\n update %a = %n\n update %b = %a",
       {-1, -2, -3},
       {1, 2, 3},
       {100, 200, 300}},
      // One new value for two variables; a third variable's new value is computed from it.
      {"%n = add %a, %i : f32[2] of f32[3] {x}\n %m = add %n, %c : f32[2] of f32[3] {x}\n"
       "update %a = %n\n update %b = %n\n update %c = %m",
       {8, 10, 12},
       {8, 10, 12},
       {108, 210, 312}},
      // A chain in which each value could overwrite the previous one.
      {"%n = neg %a : f32[2] of f32[3] {x}\n %m = neg %n : f32[2] of f32[3] {x}\n"
       "%o = add %m, %b : f32[2] of f32[3] {x}\n update %a = %o\n update %b = %m",
       {11, 22, 33},
       {1, 2, 3},
       {100, 200, 300}},
      // The new value does not depend on the old one.
      {"%n = neg %i : f32[2] of f32[3] {x}\n update %a = %n", {-7, -8, -9}, {10, 20, 30}, {100, 200, 300}},
      // An input is never overwritten, even if nothing reads it any more.
      {"%n = neg %i : f32[2] of f32[3] {x}\n return y=%n",
       {1, 2, 3},
       {10, 20, 30},
       {100, 200, 300},
       {-7, -8, -9}},
  };
  for (const UpdateCase& c : cases) {
    for (const RunMode& mode : AllRunModes()) {
      SCOPED_TRACE(fmt::format("{}\n{}", c.text, mode.ToString()));
      const RunResult run = RunUpdates(c.text, mode);
      EXPECT_TRUE(BitwiseEqual(run.variables.at("a"), Tensor::From<float>({3}, c.a)));
      EXPECT_TRUE(BitwiseEqual(run.variables.at("b"), Tensor::From<float>({3}, c.b)));
      EXPECT_TRUE(BitwiseEqual(run.variables.at("c"), Tensor::From<float>({3}, c.c)));
      if (!c.output.empty()) {
        EXPECT_TRUE(BitwiseEqual(run.outputs.at("y"), Tensor::From<float>({3}, c.output)));
      }
    }
  }
}

// Ops that read elements other than the one they write cannot write into the variable's own buffer.
TEST(ExecutorTest, NewValuesThatMixElementsAreWrittenAside) {
  const Program program = ParseProgram(R"(mesh [x=2]
func step(var %a: f32[2,2] {_,_}, var %b: i32[2,4] of i32[4,4] {x,_}, var %c: i32[4] of i32[4] {_}) {
  %a1 = transpose %a permutation=[1,0] : f32[2,2] of f32[2,2] {_,_}
  %t = transpose %b permutation=[1,0] : i32[4,2] of i32[4,4] {_,x}
  %b1 = all_to_all %t axes=(x) from=1 to=0 : i32[2,4] of i32[4,4] {x,_}
  %p = shard_slice %c axes=(x) dim=0 : i32[2] of i32[4] {x}
  %c1 = all_gather %p axes=(x) dim=0 : i32[4] of i32[4] {_}
  update %a = %a1
  update %b = %b1
  update %c = %c1
})");
  const Tensors initial = {
      {"a", Tensor::From<float>({2, 2}, {1, 2, 3, 4})}, {"b", Ramp({I32, {4, 4}})}, {"c", Ramp({I32, {4}})}};
  for (const RunMode& mode : AllRunModes()) {
    SCOPED_TRACE(mode.ToString());
    const RunResult run = RunProgram(program, {}, initial, mode);
    EXPECT_THAT(run.variables.at("a").values<float>(), ElementsAre(1, 3, 2, 4));
    EXPECT_THAT(run.variables.at("b").values<int32_t>(),
                ElementsAre(1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15, 4, 8, 12, 16));
    EXPECT_TRUE(BitwiseEqual(run.variables.at("c"), initial.at("c")));
  }
}

TEST(ExecutorTest, ProgramsShareVariablesByName) {
  const Program init = ParseProgram(R"(mesh [x=2]
func init(var %w: f32[2] of f32[4] {x}) {
  %n = iota dim=0 shape=[2] : f32[2] of f32[4] {x}
  update %w = %n
})");
  const Program step = ParseProgram(R"(mesh [x=2]
func step(var %w: f32[2] of f32[4] {x}, var %k: f32[2] of f32[4] {x}) {
  %n = add %w, %w : f32[2] of f32[4] {x}
  update %w = %n
  return %n, k=%k
})");
  CpuBackend backend(2);
  std::map<std::string, DTensor> state;
  auto first = Executor::Create(init, backend, {}, &state).value();
  auto second = Executor::Create(step, backend, {}, &state).value();
  EXPECT_EQ(state.size(), 2u);
  Tensors outputs;
  ASSERT_TRUE(first->Run({}, nullptr).ok());
  ASSERT_TRUE(second->Run({}, nullptr).ok());
  ASSERT_TRUE(second->Run({}, &outputs).ok());
  EXPECT_THAT(outputs.at("0").values<float>(),
              ElementsAre(0, 4, 8, 12));  // outputs without a name have a number
  EXPECT_THAT(outputs.at("k").values<float>(), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(Unpack(state.at("w")).value().values<float>(), ElementsAre(0, 4, 8, 12));
}

TEST(ExecutorTest, SharedAndPerDeviceStateMix) {
  const Program program = ParseProgram(R"(mesh [x=2, y=2]
func step(var %w: f32[2] of f32[3] {x}) {
  %n = add %w, %w : f32[2] of f32[3] {x}
  update %w = %n
  return y=%n
})");
  for (bool state_shares : {true, false}) {
    for (bool share : {true, false}) {
      CpuBackend backend(2);
      std::map<std::string, DTensor> state;
      state["w"] = DTensor(CpuMemory(), {F32, {3}}, *program.body.value(0).layout, state_shares);
      ASSERT_TRUE(Pack(Tensor::From<float>({3}, {1, 2, 3}), state["w"]).ok());
      auto executor = Executor::Create(program, backend, {.share = share}, &state).value();
      ASSERT_TRUE(executor->Run({}, nullptr).ok());
      EXPECT_THAT(Unpack(state.at("w"), /*check_replicas=*/true).value().values<float>(),
                  ElementsAre(2, 4, 6));
    }
  }
}

TEST(ExecutorTest, VariablesMustBeDeclaredAlike) {
  const Program program = ParseProgram(R"(mesh [x=2]
func step(var %fresh: f32[] {}, var %w: f32[2] of f32[4] {x}) {
  return w=%w, f=%fresh
})");
  CpuBackend backend(1);
  std::map<std::string, DTensor> state;
  state["w"] = DTensor(CpuMemory(), {F32, {4}}, Layout::Replicated(program.body.mesh(), 1));
  EXPECT_EQ(
      MessageOf(Executor::Create(program, backend, {}, &state).status()),
      "Executor: variable \"w\" is f32[4] {x} on [x=2] in the program and f32[4] {_} on [x=2] in the state; "
      "programs that share a variable must declare it alike.");
  EXPECT_EQ(state.count("fresh"), 0u);
}

}  // namespace
}  // namespace meshwork::executor_variables_test
