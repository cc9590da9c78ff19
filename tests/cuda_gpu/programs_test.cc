// Programs on the GPU of this machine give the numbers of one device of a CPU.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "cuda_gpu/real_gpu.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/text.h"
#include "support/backend_trials.h"
#include "support/long_tests.h"
#include "support/program_trial.h"
#include "support/random_program.h"
#include "support/random_training.h"

namespace meshwork::programs_test {
namespace {

// The programs of a test are drawn from several seeds, so that several processes can share them (GTEST_TOTAL_SHARDS).
uint64_t NumGpuPrograms() { return LongTests() ? 100 : 10; }

class GpuProgramsTest : public WithRealGpu<testing::TestWithParam<uint64_t>> {
 protected:
  template <typename Draw>
  void TryAll(Draw&& draw) {
    TryDrawn(*MakeBackend(), GetParam(), NumGpuPrograms(), draw, {{.fuse = true}, {.fuse = false}});
  }
};

TEST_P(GpuProgramsTest, RandomProgramsGiveTheOneDeviceResult) {
  const RandomPrograms programs;
  TryAll([&](uint64_t seed) { return programs.Draw(seed); });
}

TEST_P(GpuProgramsTest, LoopsAndBranchesGiveTheOneDeviceResult) {
  const RandomPrograms programs;
  TryAll([&](uint64_t seed) { return programs.DrawLoops(seed); });
}

TEST_P(GpuProgramsTest, TrainingsGiveTheOneDeviceResult) {
  TryAll([](uint64_t seed) { return DrawTraining(seed); });
}

INSTANTIATE_TEST_SUITE_P(Seeds, GpuProgramsTest, testing::Range<uint64_t>(0, 10));

class GpuTrainingTest : public RealGpuTest {};

TEST_F(GpuTrainingTest, TrainsAsTheCpuDoes) {
  for (const bool atomic : {false, true})
    for (const bool checked : {false, true})
      ExpectTrainsAsTheCpu(*MakeBackend(),
                           {.poison_padding = true, .check_replicas = checked, .atomic = atomic});
}

// Rows that lie in shared memory, and need more of it than a kernel gets by default.
TEST_F(GpuTrainingTest, LongRowsAreThoseOfTheCpu) {
  const std::unique_ptr<CudaBackend> backend = MakeBackend();
  for (const char* text : {R"(mesh []
func f(%x: f32[64,16400] {_,_}, %y: f32[64,16400] {_,_}) {
  %m = reduce_max %x dims=[1] keep_dims=true
  %d = sub %x, %m
  %e = exp %d
  %s = reduce_sum %e dims=[1] keep_dims=true
  %p = div %e, %s
  %q = mul %p, %y
  return p=%p, q=%q
})",
                           R"(mesh [x=2]
func f(%x: f64[64,6000] {x,_}, %y: f64[64,6000] {x,_}) {
  %p = mul %x, %y
  %s = reduce_sum %p dims=[1] keep_dims=true
  %q = div %p, %s
  %r = sub %q, %x
  %t = reduce_max %r dims=[1] keep_dims=true
  %u = sub %r, %t
  return u=%u
})",
                           R"(mesh []
func f(%x: bf16[33,20008] {_,_}) {
  %c = cast %x dtype=f32
  %m = reduce_max %c dims=[1] keep_dims=true
  %d = sub %c, %m
  %e = exp %d
  %s = reduce_sum %e dims=[1] keep_dims=true
  %p = div %e, %s
  return p=%p
})"}) {
    const absl::StatusOr<Graph> graph = ParseGraph(text);
    ASSERT_TRUE(graph.ok()) << graph.status();
    const RandomProgram program = WithFeeds(*graph);
    const Expected expected = ExpectedOf(program);
    ASSERT_TRUE(std::isfinite(expected.scale));
    for (const bool fuse : {true, false})
      EXPECT_EQ(TryProgram(program, expected, *backend, {}, {.fuse = fuse}).error(), "") << fuse << text;
  }
}

// Two trainings on one GPU do not disturb each other.
TEST_F(GpuTrainingTest, TwoBackendsShareTheGpu) {
  const std::unique_ptr<CudaBackend> first = MakeBackend(), second = MakeBackend();
  const absl::StatusOr<SmallTraining> a = TrainSmall(*first, {}), b = TrainSmall(*second, {}),
                                      c = TrainSmall(*first, {});
  ASSERT_TRUE(a.ok() && b.ok() && c.ok());
  EXPECT_EQ(a->losses, b->losses);
  EXPECT_EQ(a->losses, c->losses);
}

}  // namespace
}  // namespace meshwork::programs_test
