// Functions of the prelude that have formulas of their own for bf16.
#include <gtest/gtest.h>

#include <array>

#include "meshwork/base/status.h"
#include "ops/kernels/cuda/arithmetic_trials.h"
#include "support/cuda_player.h"

namespace meshwork::arithmetic_test {
namespace {

TEST(CudaArithmeticTest, FormulasAgree) {
  const auto kernels = PlayCuda(ArithmeticSource()).value();
  std::array<unsigned, std::size(kArithmeticTrials)> counts{}, examples{};
  void *to_counts = counts.data(), *to_examples = examples.data();
  long long n = kSpecialFloats + 100000;
  std::array<void*, 3> arguments = {&to_counts, &to_examples, &n};
  const absl::Status status =
      kernels->Launch("tries", {kArithmeticBlocks}, {kArithmeticThreads}, 0, arguments.data());
  ASSERT_TRUE(status.ok()) << status;
  for (size_t t = 0; t < counts.size(); ++t)
    EXPECT_EQ(counts[t], 0u) << fmt::format("{}, of {:#x}", kArithmeticTrials[t], examples[t]);
}

}  // namespace
}  // namespace meshwork::arithmetic_test
