#include "meshwork/runtime/plan/predict.h"

#include <memory>
#include <string_view>
#include <utility>

#include "gtest/gtest.h"
#include "meshwork/mesh/placement.h"
#include "meshwork/runtime/plan/loop.h"
#include "meshwork/runtime/plan/overlap.h"
#include "meshwork/runtime/plan/step_plan.h"
#include "runtime/plan/programs.h"

namespace meshwork::predict_test {
namespace {

constexpr int64_t kMuch = 1 << 20;

StepPrediction PredictFor(std::string_view text, const Link& link, int64_t bytes_under_way) {
  const Graph program = LowerLoops(ParseProgram(text).body);
  const Domain domain(Placement::Create(program.mesh(), 2).value(), 1);
  auto ordered =
      std::make_shared<const Graph>(Overlap(program, domain.placement().across(), /*bucket_bytes=*/1));
  std::vector<InstanceMap> variables;
  for (const Argument& argument : ordered->arguments())
    variables.emplace_back(domain, ordered->value(argument.value).layout->ShardedAxes());
  const StepPlan plan =
      BuildStepPlan(std::move(ordered), variables,
                    {.domain = domain, .distributed = {"y"}, .bytes_under_way = bytes_under_way})
          .value();
  return PredictTime(plan, Topology::Create(program.mesh(), {{"x", link}}, /*flops=*/1).value());
}

// Products of 60 and 84 operations, whose sums of 60 and 84 bytes cross domains; updates of 15 and 21 operations.
constexpr std::string_view kStep = R"(mesh [x=2]
func step(%x: f32[2,3] of f32[4,3] {x,_}, %d: f32[2,5] of f32[4,5] {x,_}, %e: f32[2,7] of f32[4,7] {x,_},
          var %w: f32[3,5] {_,_}, var %u: f32[3,7] {_,_}) {
  %g = matmul %x, %d transpose_a=true : f32[3,5] {_,_ | sum:x}
  %h = matmul %x, %e transpose_a=true : f32[3,7] {_,_ | sum:x}
  %H, %G = all_reduce %h, %g axes=(x) op=sum : f32[3,7] {_,_}, f32[3,5] {_,_}
  %w1 = sub %w, %G : f32[3,5] {_,_}
  %u1 = sub %u, %H : f32[3,7] {_,_}
  update %w = %w1
  update %u = %u1
})";

// 1 byte per second and 5 s of latency. The first sum starts at 60 s and arrives at 125; the second starts at 144 and
// arrives at 233. The domain waits only for the second sum, from 159 on.
TEST(PredictTest, DataCrossesBesideCompute) {
  EXPECT_EQ(PredictFor(kStep, {.bandwidth = 1, .latency = 5}, kMuch), (StepPrediction{.seconds = 254,
                                                                                      .compute_seconds = 180,
                                                                                      .remote_seconds = 154,
                                                                                      .remote_bytes = 144,
                                                                                      .start_seconds = 60,
                                                                                      .waited_seconds = 74}));
}

// At half the bandwidth, the second sum waits for the first one: it starts at 60 + 120 = 180 and takes 168 + 5 s.
TEST(PredictTest, TheLinkCarriesOneAfterTheOther) {
  const StepPrediction step = PredictFor(kStep, {.bandwidth = 0.5, .latency = 5}, kMuch);
  EXPECT_EQ(step.seconds, 180 + 168 + 5 + 21);
  // The domain waits for the first sum from 144 to 185, for the second from 200 to 353.
  EXPECT_EQ(step.waited_seconds, 41 + 153);
}

TEST(PredictTest, WithoutOverlapTheDomainWaitsForAllThatCrosses) {
  const StepPrediction step = PredictFor(kStep, {.bandwidth = 1, .latency = 5}, 0);
  EXPECT_EQ(step.seconds, step.compute_seconds + step.remote_seconds);
  EXPECT_EQ(step.waited_seconds, step.remote_seconds);
}

// In each of 5 iterations 8 bytes cross, in 8 + 5 s; then an exp takes 4, a neg 2, and the iteration count is updated.
TEST(PredictTest, ALoopTakesAsLongAsItsTurns) {
  const StepPrediction step = PredictFor(R"(mesh [x=2]
func step(%s: f32[2] of f32[4] {x}) {
  %y = scan %s length=5 (var %c: f32[2] of f32[4] {x}) {
    %g = all_gather %c axes=(x) dim=0 : f32[4] of f32[4] {_}
    %e = exp %g : f32[4] of f32[4] {_}
    %n = neg %c : f32[2] of f32[4] {x}
    update %c = %n
  } : f32[2] of f32[4] {x}
  return y=%y
})",
                                         {.bandwidth = 1, .latency = 5}, 0);
  EXPECT_EQ(step.seconds, 5 * (8 + 5 + 4 + 2 + 1));
  EXPECT_EQ(step.waited_seconds, 5 * (8 + 5));
  EXPECT_EQ(step.remote_bytes, 5 * 8);
}

TEST(PredictTest, OneDomainOnlyComputes) {
  const Graph program = ParseProgram(R"(mesh []
func step(%x: f32[8] {_}) {
  %a = exp %x : f32[8] {_}
  return y=%a
})")
                            .body;
  const StepPlan plan =
      BuildStepPlan(std::make_shared<const Graph>(program), std::vector<InstanceMap>(1), {}).value();
  EXPECT_EQ(PredictTime(plan, Topology::Create(Mesh(), {}, /*flops=*/2).value()),
            (StepPrediction{.seconds = 4, .compute_seconds = 4, .start_seconds = 4}));
}

}  // namespace
}  // namespace meshwork::predict_test
