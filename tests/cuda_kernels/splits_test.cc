// Reductions to few results are made by two kernels.
#include <gtest/gtest.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "cuda_kernels/trials.h"
#include "meshwork/base/status.h"
#include "meshwork/check/double_tensor.h"
#include "meshwork/ir/builder.h"
#include "meshwork/kernels/cuda/cuda_kernel.h"
#include "meshwork/layout/block.h"
#include "support/cuda_player.h"

namespace meshwork {
namespace {

CudaTrial SplitTrial(std::string_view name, const Type& type, const std::vector<int64_t>& dims) {
  const OpRow& row = GetOp(name);
  KernelSpec spec{.operands = {{type, type}}, .results = {}, .attrs = {{"dims", dims}, {"keep_dims", false}}};
  const Type result = InferTypes(row, std::vector<Type>{type}, spec.attrs).value()[0];
  spec.results = {{result, result}};
  Sampler sampler(8);
  return {std::string(name),
          &row,
          spec,
          MakeCudaKernel(row, spec, 16).value(),
          {ToBytes(sampler.Draw(type, GetOp("add")))},
          {WholeBlock(type.shape)},
          {WholeBlock(result.shape)}};
}

TEST(CudaSplitsTest, GiveWhatTheCpuGives) {
  const std::vector<CudaTrial> trials = {
      SplitTrial("reduce_sum", {F32, {200, 1000}}, {0, 1}),
      SplitTrial("reduce_mean", {F32, {3, 70001}}, {1}),
      SplitTrial("reduce_max", {BF16, {140000}}, {0}),
      SplitTrial("reduce_sum", {F32, {5000, 40}}, {0}),
      SplitTrial("reduce_mean", {BF16, {3000, 3, 33}}, {0}),
      SplitTrial("reduce_min", {I64, {4096, 37}}, {0}),
      SplitTrial("reduce_any", {BOOL, {2, 1500, 64}}, {1}),
      SplitTrial("reduce_sum", {F64, {5, 1500, 30}}, {0, 1}),
      // The elements of a result lie in runs apart.
      SplitTrial("reduce_sum", {F32, {40, 3, 2000}}, {0, 2}),
  };
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
}  // namespace meshwork
