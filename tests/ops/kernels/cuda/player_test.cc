// The player finds the mistakes of kernels.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

#include "meshwork/base/status.h"
#include "support/cuda_player.h"

namespace meshwork::player_test {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr unsigned kThreads = 64;

constexpr const char* kSource = R"(
// Reverses 64 numbers through shared memory.
extern "C" __global__ void reverses(const float* a, float* r) {
  __shared__ float tile[64];
  tile[threadIdx.x] = a[threadIdx.x];
  __syncthreads();
  r[threadIdx.x] = tile[63 - threadIdx.x];
}
extern "C" __global__ void reverses_too_early(const float* a, float* r) {
  __shared__ float tile[64];
  tile[threadIdx.x] = a[threadIdx.x];
  r[threadIdx.x] = tile[63 - threadIdx.x];
}
extern "C" __global__ void diverges(const float* a, float* r) {
  if (threadIdx.x < 32) __syncthreads();
  r[threadIdx.x] = a[threadIdx.x];
}
extern "C" __global__ void waits_at_two_places(const float* a, float* r) {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncthreads();
  }
  r[threadIdx.x] = a[threadIdx.x];
}
extern "C" __global__ void shows_fresh_memory(const float* a, float* r) {
  __shared__ float tile[64];
  extern __shared__ float more[];
  r[threadIdx.x] = tile[threadIdx.x] + more[threadIdx.x];
  tile[threadIdx.x] = more[threadIdx.x] = a[threadIdx.x];
}
extern "C" __global__ void sums_a_warp(const float* a, float* r) {
  float sum = a[threadIdx.x];
  for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
  r[threadIdx.x] = sum;
}
extern "C" __global__ void takes_from_below(const float* a, float* r) {
  r[threadIdx.x] = __shfl_up_sync(0xffffffffu, a[threadIdx.x], 1);
}
extern "C" __global__ void shuffles_half_a_warp(const float* a, float* r) {
  if (threadIdx.x % 32 < 16) r[threadIdx.x] = __shfl_xor_sync(0xffffffffu, a[threadIdx.x], 1);
}
extern "C" __global__ void counts(const float* a, float* r) {
  r[threadIdx.x] = __syncthreads_count(a[threadIdx.x] < 10) + (__syncthreads_or(a[threadIdx.x] < 0) ? 100 : 0);
}
extern "C" __global__ void adds_in_any_order(const float* a, float* r) {
  atomicAdd(&r[0], a[threadIdx.x] * 1e-3f + (threadIdx.x == 7 ? 1e4f : 0.0f));
}
extern "C" __global__ void takes_turns(const float* a, float* r) {
  r[threadIdx.x] = a[threadIdx.x] + 1000 * blockIdx.x;
}
)";

class CudaPlayerTest : public testing::Test {
 protected:
  static PlayedKernels& Kernels() {
    static auto* const kernels = PlayCuda(kSource).value().release();
    return *kernels;
  }

  // The result for a = 0, 1, 2, …
  static absl::StatusOr<std::vector<float>> Run(const std::string& name, uint64_t seed, unsigned blocks = 1) {
    std::vector<float> a(kThreads), r(kThreads, 0.0f);
    for (unsigned i = 0; i < kThreads; ++i) a[i] = static_cast<float>(i);
    const float* in = a.data();
    float* out = r.data();
    void* args[] = {&in, &out};
    Kernels().set_seed(seed);
    MESHWORK_RETURN_IF_ERROR(Kernels().Launch(name, {blocks}, {kThreads}, kThreads * sizeof(float), args));
    return r;
  }
  static std::set<std::vector<float>> ResultsOfSeeds(const std::string& name, unsigned blocks = 1) {
    std::set<std::vector<float>> results;
    for (uint64_t seed = 0; seed < 5; ++seed) results.insert(Run(name, seed, blocks).value());
    return results;
  }
  static std::string ErrorOf(const std::string& name) { return std::string(Run(name, 1).status().message()); }
};

TEST_F(CudaPlayerTest, ThreadsMeetAtABarrier) {
  for (uint64_t seed = 0; seed < 5; ++seed) {
    const std::vector<float> r = Run("reverses", seed).value();
    for (unsigned i = 0; i < kThreads; ++i) EXPECT_EQ(r[i], static_cast<float>(kThreads - 1 - i));
  }
}

TEST_F(CudaPlayerTest, AMissingBarrierShowsAsADifferenceBetweenSeeds) {
  std::set<std::string> results;
  for (uint64_t seed = 0; seed < 5; ++seed) {
    std::string text;
    const std::vector<float> r = Run("reverses_too_early", seed).value();
    for (float x : r) text += fmt::format("{} ", x);
    results.insert(text);
  }
  EXPECT_GT(results.size(), 1u);
  for (const std::string& result : results) EXPECT_THAT(result, HasSubstr("nan"));
}

TEST_F(CudaPlayerTest, ABarrierThatNotAllThreadsReachIsAnError) {
  EXPECT_EQ(ErrorOf("diverges"), "diverges, block 0: thread 0 waits at line 15, and thread 32 has ended.");
  EXPECT_EQ(ErrorOf("waits_at_two_places"),
            "waits_at_two_places, block 0: thread 0 waits at line 20, and thread 32 at line 22.");
  EXPECT_EQ(ErrorOf("shuffles_half_a_warp"),
            "shuffles_half_a_warp, block 0: thread 0 waits at line 41, and thread 16 has ended.");
}

TEST_F(CudaPlayerTest, SharedMemoryIsFreshForEachBlock) {
  const std::vector<float> r = Run("shows_fresh_memory", 1, /*blocks=*/3).value();
  for (float x : r) EXPECT_TRUE(std::isnan(x)) << x;
}

TEST_F(CudaPlayerTest, LanesOfAWarpExchangeValues) {
  const std::vector<float> r = Run("sums_a_warp", 1).value();
  for (unsigned i = 0; i < kThreads; ++i) EXPECT_EQ(r[i], i < 32 ? 496.0f : 1520.0f);
  const std::vector<float> below = Run("takes_from_below", 2).value();
  for (unsigned i = 0; i < kThreads; ++i) EXPECT_EQ(below[i], static_cast<float>(i % 32 == 0 ? i : i - 1));
}

TEST_F(CudaPlayerTest, ABarrierCountsTheThreadsThatSayYes) {
  EXPECT_THAT(Run("counts", 3).value(), Each(10.0f));
}

TEST_F(CudaPlayerTest, SumsOfAtomicsDependOnTheOrder) {
  EXPECT_GT(ResultsOfSeeds("adds_in_any_order").size(), 1u);
}

TEST_F(CudaPlayerTest, BlocksRunInAnyOrder) { EXPECT_GT(ResultsOfSeeds("takes_turns", 4).size(), 1u); }

TEST_F(CudaPlayerTest, SaysWhatCannotBeLaunched) {
  EXPECT_EQ(ErrorOf("no_such_kernel"), "there is no kernel no_such_kernel.");
  EXPECT_EQ(Kernels().Launch("counts", {1}, {2048}, 0, nullptr).message(),
            "counts: a block has 1 to 1024 threads, not 2048.");
  EXPECT_EQ(Kernels().Launch("counts", {0}, {32}, 0, nullptr).message(), "counts: the grid is empty.");
}

TEST_F(CudaPlayerTest, SaysWhatTheCompilerSays) {
  const auto kernels = CudaPlayer(1).Compile("__global__ void broken() { int x = no_such_name; }");
  EXPECT_THAT(std::string(kernels.status().message()), HasSubstr("no_such_name"));
}

TEST_F(CudaPlayerTest, CompilesBehindTheInterface) {
  const auto kernels = CudaPlayer(1).Compile("extern \"C\" __global__ void sets(int* r) { *r = 7; }").value();
  int r = 0;
  int* at = &r;
  void* args[] = {&at};
  EXPECT_TRUE(kernels->Launch("sets", {}, {}, 0, args).ok());
  EXPECT_EQ(r, 7);
}

}  // namespace
}  // namespace meshwork::player_test
