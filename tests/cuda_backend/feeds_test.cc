// Host tensors that are copied to a GPU and back in several pieces.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cuda_backend/played_gpu.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/text.h"
#include "meshwork/runtime/exec/executor.h"
#include "meshwork/spmd/compile.h"

namespace meshwork::feeds_test {
namespace {

using ::testing::IsEmpty;

using Tensors = std::map<std::string, Tensor>;

constexpr int64_t kLarge = 333'337, kOdd = 7;

// 1.3 MB in each direction, after 7 bytes.
constexpr std::string_view kProgram = R"(mesh [x=1]
func f(%odd: u8[7] {_}, %large: i32[333337] {_}, %more: i32[5] {_}) {
  %one = constant value=1 dtype=i32 shape=[]
  %sum = add %large, %one
  %rest = add %more, %one
  %wide = cast %odd dtype=i32
  %same = add %wide, %one
  return odd=%same, large=%sum, more=%rest
})";

Tensors FeedsOf(int step) {
  std::vector<int32_t> large(kLarge), more(5);
  std::vector<uint8_t> odd(kOdd);
  for (size_t i = 0; i < large.size(); ++i) large[i] = static_cast<int32_t>(i * 2654435761u) / 2 + step;
  for (size_t i = 0; i < more.size(); ++i) more[i] = static_cast<int32_t>(i) + step;
  for (size_t i = 0; i < odd.size(); ++i) odd[i] = static_cast<uint8_t>(10 * i + static_cast<size_t>(step));
  return {{"large", Tensor::From<int32_t>({kLarge}, large)},
          {"more", Tensor::From<int32_t>({5}, more)},
          {"odd", Tensor::From<uint8_t>({kOdd}, odd)}};
}

// Returns "" if the outputs are right, else the name of a wrong element.
std::string WrongIn(const Tensors& outputs, int step) {
  const Tensors feeds = FeedsOf(step);
  for (const char* name : {"large", "more"})
    for (size_t i = 0; i < static_cast<size_t>(feeds.at(name).num_elements()); ++i)
      if (outputs.at(name).values<int32_t>()[i] != feeds.at(name).values<int32_t>()[i] + 1)
        return fmt::format("{}[{}]", name, i);
  for (size_t i = 0; i < kOdd; ++i)
    if (outputs.at("odd").values<int32_t>()[i] != feeds.at("odd").values<uint8_t>()[i] + 1)
      return fmt::format("odd[{}]", i);
  return "";
}

absl::StatusOr<std::unique_ptr<Executor>> ExecutorOn(Backend& backend, const ExecutorOptions& options = {}) {
  MESHWORK_ASSIGN_OR_RETURN(const Graph graph, ParseGraph(kProgram));
  MESHWORK_ASSIGN_OR_RETURN(const Program program, Compile(graph));
  std::map<std::string, DTensor> state;
  return Executor::Create(program, backend, options, &state);
}

// Each step reuses the pinned memory of the step before, and simulated transfers read it late.
TEST(CudaFeedsTest, GoInPieces) {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    PlayedGpu gpu(seed);
    {
      const auto backend = gpu.MakeBackend().value();
      const absl::StatusOr<std::unique_ptr<Executor>> executor =
          ExecutorOn(*backend, {.poison_padding = seed == 2, .profile = seed == 1});
      ASSERT_TRUE(executor.ok()) << executor.status();
      for (int step = 0; step < 3; ++step) {
        Tensors outputs;
        ASSERT_TRUE((*executor)->Run(FeedsOf(step), &outputs).ok());
        EXPECT_EQ(WrongIn(outputs, step), "") << "seed " << seed << ", step " << step;
      }
    }
    EXPECT_THAT(gpu.cuda.TakeFindings(), IsEmpty());
    EXPECT_THAT(gpu.cuda.TakeLeaks(), IsEmpty());
  }
}

// Whichever call of a step fails, with pieces on their way: the stream is empty afterwards, and the next step is right.
TEST(CudaFeedsTest, AStepThatFailsLeavesNothing) {
  PlayedGpu gpu(1);
  {
    const auto backend = gpu.MakeBackend().value();
    const auto executor = ExecutorOn(*backend).value();
    Tensors outputs;
    ASSERT_TRUE(executor->Run(FeedsOf(0), &outputs).ok());
    // Checks a step in which a call failed, and the next step.
    const auto check = [&](int step, const std::string& call, const absl::Status& status) {
      if (status.ok()) {
        EXPECT_EQ(WrongIn(outputs, step), "") << call;
      }
      EXPECT_EQ(gpu.cuda.num_pending(), 0) << call;
      EXPECT_TRUE(executor->Run(FeedsOf(step + 1), &outputs).ok()) << call;
      EXPECT_EQ(WrongIn(outputs, step + 1), "") << call;
      EXPECT_THAT(gpu.cuda.TakeFindings(), IsEmpty()) << call << ", step " << step;
    };
    std::map<std::string, int> failed;
    for (int nth = 1;; ++nth) {
      ASSERT_LT(nth, 1000);
      gpu.cuda.FailAnyCall(nth, CUDA_ERROR_INVALID_VALUE);
      const absl::Status status = executor->Run(FeedsOf(nth), &outputs);
      const std::string call = gpu.cuda.failed_call();
      if (call.empty()) {
        EXPECT_TRUE(status.ok()) << status;
        break;
      }
      failed[call] += !status.ok();
      check(nth, call, status);
    }
    EXPECT_GE(failed["cuMemcpyHtoDAsync"], 3);
    // Two threads make calls, so the number of the launch among all calls varies.
    gpu.cuda.FailCall("cuGraphLaunch", 1, CUDA_ERROR_INVALID_VALUE);
    const absl::Status unlaunched = executor->Run(FeedsOf(0), &outputs);
    EXPECT_FALSE(unlaunched.ok());
    check(0, "cuGraphLaunch", unlaunched);
  }
  EXPECT_THAT(gpu.cuda.TakeLeaks(), IsEmpty());
}

}  // namespace
}  // namespace meshwork::feeds_test
