#include "meshwork/runtime/cpu/cpu_backend.h"

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/ir/row.h"
#include "runtime/programs.h"
#include "runtime/schedules.h"

namespace meshwork {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

constexpr std::string_view kCount = R"(mesh [x=2]
func count(%a: f32[2] of f32[3] {x}, var %n: f32[2] of f32[3] {x}) {
  %m = add %n, %a : f32[2] of f32[3] {x}
  %t = neg %m : f32[2] of f32[3] {x}
  update %n = %m
  return m=%m, t=%t
})";

TEST(CpuBackendTest, HasTheOpsOfRowsWithAKernel) {
  const OpRow dream = {.name = "dream"};
  const CpuBackend backend(1);
  EXPECT_TRUE(backend.Has(GetOp("matmul")));
  EXPECT_FALSE(backend.Has(dream));
}

// What the executor does with one.
TEST(CpuBackendTest, APreparedStepRunsOnAddresses) {
  CpuBackend backend(2);
  const StepPlan plan = MakePlan(kCount);
  const Layout layout = Layout::Parse(plan.graph->mesh(), "{x}").value();
  std::vector<DTensor> variables(2);
  variables[1] = DTensor(backend.memory(), {F32, {3}}, layout);
  auto step = backend.Prepare(plan, variables, {.profile = true}).value();
  EXPECT_EQ(step->memory(), backend.PlanMemory(plan, {}));
  const std::vector<float> a = {1, 2, 3};
  std::vector<float> m(3), t(3);
  const std::byte* const feeds[] = {reinterpret_cast<const std::byte*>(a.data()), nullptr};
  std::byte* outputs[] = {reinterpret_cast<std::byte*>(m.data()), reinterpret_cast<std::byte*>(t.data())};
  ASSERT_EQ(MessageOf(step->Run(feeds, outputs, {})), "");
  EXPECT_THAT(t, ElementsAre(-1, -2, -3));
  outputs[1] = nullptr;  // not wanted
  ASSERT_EQ(MessageOf(step->Run(feeds, outputs, {})), "");
  EXPECT_THAT(m, ElementsAre(2, 4, 6));
  EXPECT_THAT(t, ElementsAre(-1, -2, -3));
  EXPECT_EQ(step->Profile().steps, 2);
}

TEST(CpuBackendTest, BackendsOfOnePoolShareVariables) {
  WorkerPool pool(2);
  CpuBackend first(pool), second(pool);
  EXPECT_EQ(first.memory(), second.memory());
  std::map<std::string, DTensor> state;
  const Program program = ParseProgram(kCount);
  auto a = Executor::Create(program, first, {}, &state).value();
  auto b = Executor::Create(program, second, {}, &state).value();
  const Tensors feeds = {{"a", Tensor::From<float>({3}, {1, 1, 1})}};
  Tensors outputs;
  for (int i = 0; i < 3; ++i)
    for (Executor* executor : {a.get(), b.get()}) ASSERT_TRUE(executor->Run(feeds, &outputs).ok());
  EXPECT_THAT(outputs.at("m").values<float>(), Each(6));
}

TEST(CpuBackendTest, VariablesOutliveIt) {
  std::map<std::string, DTensor> state;
  {
    CpuBackend backend(1);
    auto executor = Executor::Create(ParseProgram(kCount), backend, {}, &state).value();
    ASSERT_TRUE(executor->Run({{"a", Tensor::From<float>({3}, {1, 2, 3})}}, nullptr).ok());
  }
  EXPECT_THAT(Unpack(state.at("n")).value().values<float>(), ElementsAre(1, 2, 3));
}

}  // namespace
}  // namespace meshwork
