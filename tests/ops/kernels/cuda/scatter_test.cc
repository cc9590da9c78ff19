// Scatters of many updates, which take several rounds of lists, against the kernels of the CPU.
#include <gtest/gtest.h>

#include <random>

#include "meshwork/base/status.h"
#include "meshwork/layout/block.h"
#include "meshwork/tools/check/double_tensor.h"
#include "ops/kernels/cuda/trials.h"
#include "support/cuda_player.h"

namespace meshwork::scatter_test {
namespace {

struct ScatterCase {
  int64_t rows, inner, count;
  double to_one;  // the share of updates that go to row 1
};

// scatter_add of updates [count, inner] in f32, whose sums depend on their order.
CudaTrial TrialOf(const ScatterCase& of) {
  std::mt19937_64 engine(3);
  const Type updates{F32, {of.count, of.inner}}, indices{I32, {of.count}}, result{F32, {of.rows, of.inner}};
  DoubleTensor values{updates, {}}, at{indices, {}};
  for (int64_t i = 0; i < updates.num_elements(); ++i)
    values.values.push_back(static_cast<double>(static_cast<float>(engine() % 1000003) * 1e-3F));
  for (int64_t i = 0; i < of.count; ++i) {
    const bool is_one = static_cast<double>(engine() % 1000) < 1000 * of.to_one;
    at.values.push_back(is_one ? 1 : static_cast<double>(engine() % static_cast<uint64_t>(of.rows)));
  }
  const KernelSpec spec{.operands = {{updates, updates}, {indices, indices}},
                        .results = {{result, result}},
                        .attrs = {{"dim", int64_t{0}}, {"shape", std::vector<int64_t>{of.rows, of.inner}}}};
  const OpRow& row = GetOp("scatter_add");
  return {fmt::format("{} rows of {}, {} updates", of.rows, of.inner, of.count),
          &row,
          spec,
          MakeCudaKernel(row, spec).value(),
          {ToBytes(values), ToBytes(at)},
          {WholeBlock(updates.shape), WholeBlock(indices.shape)},
          {WholeBlock(result.shape)}};
}

TEST(CudaScatterTest, AddsInTheOrderOfTheUpdates) {
  std::vector<CudaTrial> trials;
  // Blocks with two rows each; more updates of a row than a list holds; rows wider than the threads' registers.
  for (const ScatterCase& of :
       {ScatterCase{1030, 3, 1100, 0.3}, {5, 40, 5000, 0.95}, {2, 1030, 60, 0.5}, {1030, 2, 4200, 0.99}})
    trials.push_back(TrialOf(of));
  std::vector<CudaKernel> kernels;
  for (const CudaTrial& trial : trials) kernels.push_back(trial.kernel);
  const auto played = PlayCuda(CudaSourceOf(kernels));
  ASSERT_TRUE(played.ok()) << played.status();
  for (const CudaTrial& trial : trials) {
    const std::vector<Bytes> expected = RunOnCpu(trial);
    for (const uint64_t seed : {1, 2}) {
      (*played)->set_seed(seed);
      const absl::StatusOr<std::vector<Bytes>> found = RunPlayed(**played, trial);
      ASSERT_TRUE(found.ok()) << found.status();
      EXPECT_EQ(DifferenceOf(trial, expected, *found, /*exactly=*/true), "");
    }
  }
}

}  // namespace
}  // namespace meshwork::scatter_test
