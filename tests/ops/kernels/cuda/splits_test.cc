// Reductions to few results are made by two kernels.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/ops/kernels/cuda/cuda_kernel.h"
#include "ops/kernels/cuda/trials.h"
#include "support/cuda_player.h"

namespace meshwork::splits_test {
namespace {

TEST(CudaSplitsTest, GiveWhatTheCpuGives) {
  const std::vector<CudaTrial> trials = SplitTrials();
  std::vector<CudaKernel> kernels;
  for (const CudaTrial& trial : trials) {
    EXPECT_NE(trial.kernel.second, nullptr) << trial.name;
    kernels.push_back(trial.kernel);
  }
  const auto played = PlayCuda(CudaSourceOf(kernels)).value();
  for (const CudaTrial& trial : trials) {
    std::vector<Bytes> first;
    for (const uint64_t seed : {1, 2}) {
      played->set_seed(seed);
      const absl::StatusOr<std::vector<Bytes>> found = RunPlayed(*played, trial);
      ASSERT_TRUE(found.ok()) << found.status();
      if (seed == 1) {
        EXPECT_EQ(DifferenceOf(trial, RunOnCpu(trial), *found, /*exactly=*/false), "") << trial.kernel.source;
        first = *found;
      } else {
        EXPECT_TRUE(*found == first) << trial.name;
      }
    }
  }
}

// Otherwise a second kernel is not worth it.
TEST(CudaSplitsTest, AreOfFewResultsOfManyElements) {
  const auto is_split = [](const Shape& shape, int64_t dim) {
    const Type type{F32, shape}, result{F32, {shape[static_cast<size_t>(1 - dim)]}};
    const KernelSpec spec{.operands = {{type, type}},
                          .results = {{result, result}},
                          .attrs = {{"dims", std::vector<int64_t>{dim}}, {"keep_dims", false}}};
    return MakeCudaKernel(GetOp("reduce_sum"), spec).value().second != nullptr;
  };
  EXPECT_TRUE(is_split({8192, 700}, 0));
  EXPECT_TRUE(is_split({8, 1 << 20}, 1));
  EXPECT_FALSE(is_split({8192, 50000}, 0));
  EXPECT_FALSE(is_split({8192, 1024}, 1));
  EXPECT_FALSE(is_split({100, 100}, 0));
  EXPECT_FALSE(is_split({8, 16000}, 1));
}

}  // namespace
}  // namespace meshwork::splits_test
