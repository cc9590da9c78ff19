// Decompositions of matrices whose blocks have several warps, beside the kernels of the CPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/ir/registry.h"
#include "meshwork/layout/block.h"
#include "meshwork/tools/check/double_tensor.h"
#include "ops/kernels/cuda/trials.h"
#include "support/cuda_player.h"

namespace meshwork::linalg_test {
namespace {

CudaTrial TrialOf(std::string_view op, const std::vector<Type>& in, const std::vector<Type>& out,
                  Attrs attrs = {}) {
  std::mt19937_64 engine(3);
  const OpRow& row = GetOp(op);
  CudaTrial trial{
      .name = fmt::format("{} {}", op, in[0].ToString()), .row = &row, .spec = {.attrs = std::move(attrs)}};
  for (const Type& type : in) {
    trial.spec.operands.push_back({type, type});
    trial.in_blocks.push_back(WholeBlock(type.shape));
    DoubleTensor values{type, {}};
    const int64_t n = type.shape.back();
    for (int64_t i = 0; i < type.num_elements(); ++i) {
      const double drawn = static_cast<double>(engine() % 2001) / 1000 - 1;
      // Of a square: well-conditioned, and positive definite.
      const bool is_square = op != "qr" && type.shape.end()[-2] == n;
      const bool is_diagonal = is_square && i / n % n == i % n;
      values.values.push_back(is_diagonal ? 4 + drawn : is_square ? drawn / static_cast<double>(n) : drawn);
    }
    trial.in.push_back(ToBytes(values));
  }
  for (const Type& type : out) {
    trial.spec.results.push_back({type, type});
    trial.out_blocks.push_back(WholeBlock(type.shape));
  }
  trial.kernel = MakeCudaKernel(row, trial.spec).value();
  return trial;
}

CudaTrial QrTrial(DType dtype, int64_t count, int64_t m, int64_t n) {
  const int64_t k = std::min(m, n);
  return TrialOf("qr", {{dtype, {count, m, n}}}, {{dtype, {count, m, k}}, {dtype, {count, k, n}}});
}
CudaTrial SolveTrial(DType dtype, int64_t n, int64_t columns, bool lower, bool transposed) {
  const Type a{dtype, {2, n, n}}, b{dtype, {2, n, columns}};
  return TrialOf("triangular_solve", {a, b}, {b},
                 {{"lower", lower}, {"transpose_a", transposed}, {"unit_diagonal", false}});
}

TEST(CudaLinalgTest, DecomposesAsTheCpu) {
  std::vector<CudaTrial> trials = {QrTrial(F32, 2, 5, 5),
                                   QrTrial(F32, 1, 90, 40),
                                   QrTrial(F64, 1, 40, 75),
                                   QrTrial(F64, 1, 70, 70),
                                   QrTrial(F32, 3, 100, 1),
                                   SolveTrial(F32, 20, 3, true, false),
                                   SolveTrial(F64, 50, 70, false, false),
                                   SolveTrial(F32, 70, 33, true, true),
                                   SolveTrial(F64, 30, 1, false, true)};
  for (const int64_t n : {3, 33, 80})
    trials.push_back(TrialOf("cholesky", {{F64, {2, n, n}}}, {{F64, {2, n, n}}}));
  std::vector<CudaKernel> kernels;
  for (const CudaTrial& trial : trials) kernels.push_back(trial.kernel);
  const auto played = PlayCuda(CudaSourceOf(kernels));
  ASSERT_TRUE(played.ok()) << played.status();
  for (const CudaTrial& trial : trials) {
    const std::vector<Bytes> expected = RunOnCpu(trial);
    std::vector<Bytes> first;
    for (const uint64_t seed : {1, 2, 3}) {
      (*played)->set_seed(seed);
      const absl::StatusOr<std::vector<Bytes>> found = RunPlayed(**played, trial);
      ASSERT_TRUE(found.ok()) << found.status();
      EXPECT_EQ(DifferenceOf(trial, expected, *found, /*exactly=*/false), "") << trial.name;
      if (seed == 1) first = *found;
      EXPECT_EQ(DifferenceOf(trial, first, *found, /*exactly=*/true), "") << trial.name;
    }
  }
}

}  // namespace
}  // namespace meshwork::linalg_test
