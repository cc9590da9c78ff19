// The matrix product against a plain loop, over sizes and transposes.
#include "meshwork/kernels/blas/gemm.h"

#include <cstdint>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/ops/ops.h"
#include "ops/apply.h"
#include "support/interpreter.h"

namespace meshwork {
namespace {

using ::testing::ElementsAre;

template <typename T>
void ExpectGemmIsRight(int64_t m, int64_t n, int64_t k) {
  std::mt19937 random(8);
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      // Small whole numbers: every sum is exact in both types.
      std::vector<T> a(static_cast<size_t>(m * k)), b(static_cast<size_t>(k * n));
      for (T& x : a) x = static_cast<T>(static_cast<int>(random() % 9) - 4);
      for (T& x : b) x = static_cast<T>(static_cast<int>(random() % 9) - 4);
      std::vector<T> c(static_cast<size_t>(m * n) + 1, T(-99)),
          expected(static_cast<size_t>(m * n) + 1, T(0));
      expected.back() = T(-99);  // what lies behind the result stays
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j)
          for (int64_t l = 0; l < k; ++l)
            expected[i * n + j] += (ta ? a[l * m + i] : a[i * k + l]) * (tb ? b[j * k + l] : b[l * n + j]);
      const GemmShape shape{ta, tb, m, n, k, ta ? m : k, tb ? k : n, n};
      Gemm(shape, std::vector<GemmTerm>(1), a.data(), b.data(), c.data());
      ASSERT_EQ(c, expected) << m << "x" << n << "x" << k << " " << ta << tb;
    }
  }
}

TEST(GemmTest, MultipliesEverySizeAndTranspose) {
  for (int64_t m : {0, 1, 2, 5, 17}) {
    for (int64_t n : {0, 1, 3, 8, 33}) {
      for (int64_t k : {0, 1, 4, 7, 64}) {
        ExpectGemmIsRight<float>(m, n, k);
        ExpectGemmIsRight<double>(m, n, k);
      }
    }
  }
}

TEST(GemmTest, IsWhatTheMatmulRowRuns) {
  const HostTensor a({F32, {3, 2}}, {1, 2, 3, 4, 5, 6}), b({F32, {2, 3}}, {1, 0, 2, 0, 1, 3});
  EXPECT_THAT(Apply("matmul", {a, b}, {}, {F32, {3, 3}}).Numbers(), ElementsAre(1, 2, 8, 3, 4, 18, 5, 6, 28));
  EXPECT_THAT(
      Apply("matmul", {a, b}, {{"transpose_a", true}, {"transpose_b", true}}, {F32, {2, 2}}).Numbers(),
      ElementsAre(11, 18, 14, 22));
}

}  // namespace
}  // namespace meshwork
