#include "meshwork/runtime/cpu/cpu_backend.h"

#include <map>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/ir/row.h"
#include "runtime/plan/programs.h"
#include "runtime/plan/schedules.h"

namespace meshwork::cpu_backend_test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

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

// Runs a prepared step as the executor does.
TEST(CpuBackendTest, APreparedStepRunsOnAddresses) {
  CpuBackend backend(2);
  const StepPlan plan = MakePlan(kCount);
  const Layout layout = Layout::Parse(plan.graph->mesh(), "{x}").value();
  std::vector<DTensor> variables(2);
  variables[1] = DTensor(backend.memory(), {F32, {3}}, layout);
  auto step = backend.Prepare(plan, variables, {.profile = true}).value();
  EXPECT_EQ(step->memory(), backend.PlanMemory(plan, {}).value());
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

// Negates its operand, by all workers. If the first number of a block is 13, the last worker has no memory, and finds
// out after the workers have met.
void RegisterTeamNeg() {
  static const bool is_registered = [] {
    OpRow row = GetOp("neg");
    row.name = "team_neg";
    row.stack = nullptr;
    row.is_light = false;
    row.in_place = {};
    row.cpu = [](const KernelSpec& spec) -> Kernel {
      return {.run =
                  [n = spec.results[0].local.num_elements()](const KernelArgs& args) {
                    Team& team = *args.team;
                    const bool is_last = team.member() == team.size() - 1;
                    for (int64_t i = team.member(); i < n; i += team.size())
                      args.Out<float>(0)[i] = -args.In<float>(0)[i];
                    team.Meet();
                    if (is_last && args.In<float>(0)[0] == 13) throw std::bad_alloc();
                  },
              .by_team = true};
    };
    return RegisterOp(row).ok();
  }();
  ASSERT_TRUE(is_registered);
}

// A worker that fails in the first block still takes part in the other blocks, where the other workers wait for it.
TEST(CpuBackendTest, AWorkerOfATeamThatFailsLeavesNobodyWaiting) {
  RegisterTeamNeg();
  const Program program = ParseProgram(R"(mesh [x=3]
func f(%a: f32[2] of f32[6] {x}) {
  %n = team_neg %a : f32[2] of f32[6] {x}
  return n=%n
})");
  for (const int workers : {1, 2, 3}) {
    CpuBackend backend(workers);
    std::map<std::string, DTensor> state;
    auto executor = Executor::Create(program, backend, {}, &state).value();
    Tensors outputs;
    for (int step = 0; step < 3; ++step) {
      const absl::Status failed =
          executor->Run({{"a", Tensor::From<float>({6}, {13, 2, 3, 4, 5, 6})}}, &outputs);
      EXPECT_EQ(failed.code(), absl::StatusCode::kResourceExhausted);
      EXPECT_THAT(MessageOf(failed), HasSubstr("there is not enough memory"));
      ASSERT_EQ(MessageOf(executor->Run({{"a", Tensor::From<float>({6}, {1, 2, 3, 4, 5, 6})}}, &outputs)),
                "");
      EXPECT_THAT(outputs.at("n").values<float>(), ElementsAre(-1, -2, -3, -4, -5, -6));
    }
  }
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
}  // namespace meshwork::cpu_backend_test
