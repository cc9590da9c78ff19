// Kernels in sizes of several tiles, against the kernels of the CPU; also at addresses that are not aligned to words.
#include <gtest/gtest.h>

#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/ir/sample.h"
#include "meshwork/layout/block.h"
#include "meshwork/tools/check/double_tensor.h"
#include "ops/kernels/cuda/trials.h"
#include "support/cuda_player.h"

namespace meshwork::tiles_test {
namespace {

struct TiledCase {
  std::string_view op, sample;
  bool exactly;
};

constexpr TiledCase kCases[] = {
    {"conv", "f32[2,20,9,5], f32[3,3,5,70]; low=[1,1] high=[1,1]", false},
    {"conv", "f32[1,19,20,8], f32[3,2,4,20]; strides=[2,1] groups=2", false},
    {"conv", "bf16[2,150,6], bf16[3,6,32]; low=[1] high=[1]", false},
    {"conv_input_grad", "f32[2,20,9,6], f32[3,3,36,6]; shape=[2,20,9,36] low=[1,1] high=[1,1]", false},
    {"conv_input_grad", "f64[1,9,70], f64[3,6,70]; shape=[1,17,6] strides=[2] low=[1] high=[1]", false},
    {"conv_filter_grad", "f32[2,20,9,5], f32[2,20,9,40]; shape=[3,3,5,40] low=[1,1] high=[1,1]", false},
    {"conv_filter_grad", "f64[1,300,2], f64[1,300,6]; shape=[3,2,6] low=[1] high=[1]", false},
    {"transpose", "f32[3,70,40]; permutation=[0,2,1]", true},
    {"transpose", "bf16[2,35,3,16]; permutation=[0,2,1,3]", true},
    {"transpose", "bool[33,2,40]; permutation=[2,1,0]", true},
    {"slice", "bf16[3,40,24]; start=[1,8,0] limit=[3,40,24] stride=[1,2,1]", true},
    {"concat", "bf16[3,2,8], bf16[3,5,8], bf16[3,1,8]; dim=1", true},
    {"concat", "f32[3,2], f32[3,6]; dim=1", true},
    {"gather", "bf16[9,24], i32[7]; dim=0", true},
    {"sort", "f32[2,100]; dim=1", true},
    {"sort", "bf16[90,3]; dim=0 descending=true", true},
    {"top_k", "i64[2,1500]; dim=1 k=5", true},
    {"top_k", "f32[1,9000]; dim=1 k=70", true},
    {"reshape", "f32[8,6]; shape=[4,12]", true},
};

CudaTrial TrialOf(const TiledCase& of) {
  const OpRow& row = GetOp(of.op);
  const Sample sample = ParseSample(row, of.sample).value();
  CudaTrial trial{.name = fmt::format("{} {}", of.op, of.sample), .row = &row};
  Sampler sampler(8);
  for (const Type& type : sample.operands) {
    trial.spec.operands.push_back({type, type});
    trial.in.push_back(ToBytes(sampler.Draw(type, row)));
    trial.in_blocks.push_back(WholeBlock(type.shape));
  }
  for (const Type& type : sample.results) {
    trial.spec.results.push_back({type, type});
    trial.out_blocks.push_back(WholeBlock(type.shape));
  }
  trial.spec.attrs = sample.attrs;
  trial.kernel = MakeCudaKernel(row, trial.spec).value();
  return trial;
}

TEST(CudaTilesTest, ComputeWhatTheCpuKernelsDo) {
  std::vector<std::pair<CudaTrial, bool>> trials;
  std::vector<CudaKernel> kernels;
  for (const TiledCase& of : kCases) trials.emplace_back(TrialOf(of), of.exactly);
  for (const auto& [trial, exactly] : trials) kernels.push_back(trial.kernel);
  const auto played = PlayCuda(CudaSourceOf(kernels));
  ASSERT_TRUE(played.ok()) << played.status();
  for (const auto& [trial, exactly] : trials) {
    const std::vector<Bytes> expected = RunOnCpu(trial);
    std::vector<Bytes> first;
    for (const uint64_t seed : {1, 2}) {
      (*played)->set_seed(seed);
      const absl::StatusOr<std::vector<Bytes>> found = RunPlayed(**played, trial, seed == 1 ? 0 : 8);
      ASSERT_TRUE(found.ok()) << found.status();
      EXPECT_EQ(DifferenceOf(trial, expected, *found, exactly), "");
      if (seed == 1) first = *found;
      EXPECT_TRUE(*found == first) << trial.name << " depends on the order of threads or on addresses";
    }
  }
}

}  // namespace
}  // namespace meshwork::tiles_test
