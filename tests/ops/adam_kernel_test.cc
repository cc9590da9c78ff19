// The kernel of adam_update against the formula in double precision.
#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "meshwork/ops/ops.h"
#include "ops/apply.h"
#include "ops/kernel_check.h"
#include "support/interpreter.h"

namespace meshwork::adam_kernel_test {
namespace {

TEST(AdamKernelTest, FollowsTheFormula) {
  constexpr double kRate = 0.1, kB1 = 0.8, kB2 = 0.95, kEpsilon = 1e-3;
  std::mt19937 random(11);
  for (DType dtype : {F32, F64, BF16}) {
    struct Case {
      double step, decay, factor;  // factor of the rate; 1: no such operand
    };
    for (auto [step, decay, factor] : {Case{1, 0, 1}, {2, 0.25, 1}, {100, 0, 1}, {3, 0.25, 0.5}}) {
      const Attrs attrs = {
          {"learning_rate", kRate / factor}, {"beta1", kB1}, {"beta2", kB2}, {"epsilon", kEpsilon},
          {"weight_decay", decay},           {"lazy", false}};
      const Type type{dtype, {3, 37}};
      const auto n = static_cast<size_t>(type.num_elements());
      const HostTensor w(type, Draw(random, 111, -1, 1, false)), g(type, Draw(random, 111, -1, 1, false)),
          m(type, Draw(random, 111, -1, 1, false)), v(type, Draw(random, 111, 0, 1, false)),
          t({I64, {}}, {step});
      auto run = [&, factor = factor](const Ints& cuts) {  // clang 14 captures no structured binding
        std::vector<TensorPart> results(3, HostTensor(type));
        std::vector<TensorPart> operands = {w, g, m, v, t};
        if (factor != 1) operands.emplace_back(HostTensor({F64, {}}, {factor}));
        RunKernel(GetOp("adam_update"), attrs, operands, results, cuts);
        return results;
      };
      const std::vector<TensorPart> got = run({}), pieces = run({1, 50, 64});
      for (size_t r = 0; r < 3; ++r) EXPECT_EQ(got[r].local, pieces[r].local);
      const double tolerance = dtype == F32 ? 1e-6 : dtype == F64 ? 1e-14 : 0x1p-8;
      for (size_t i = 0; i < n; ++i) {
        const double gradient = g.Numbers()[i];
        const double first = kB1 * m.Numbers()[i] + (1 - kB1) * gradient;
        const double second = kB2 * v.Numbers()[i] + (1 - kB2) * gradient * gradient;
        const double corrected1 = first / (1 - std::pow(kB1, step)),
                     corrected2 = second / (1 - std::pow(kB2, step));
        EXPECT_NEAR(got[1].local.Numbers()[i], first, tolerance);
        EXPECT_NEAR(got[2].local.Numbers()[i], second, tolerance);
        EXPECT_NEAR(got[0].local.Numbers()[i],
                    w.Numbers()[i] -
                        kRate * (corrected1 / (std::sqrt(corrected2) + kEpsilon) + decay * w.Numbers()[i]),
                    tolerance);
      }
    }
  }
}

}  // namespace
}  // namespace meshwork::adam_kernel_test
