// The rows that ops/kernels/portable/vector_math.h computes in float, against the C library's functions of double.
// RunKernel asserts that all levels of the CPU agree bit by bit.
#include "meshwork/ops/kernels/portable/vector_math.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "ops/apply.h"
#include "support/interpreter.h"
#include "support/long_tests.h"

namespace meshwork::vector_math_test {
namespace {

struct Function {
  const char* op;
  double (*exact)(double);
  double ulp;  // how far a result may be from it
};

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double Softplus(double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }

const Function kFunctions[] = {{"exp", [](double x) { return std::exp(x); }, 1},
                               {"expm1", [](double x) { return std::expm1(x); }, 2},
                               {"log", [](double x) { return std::log(x); }, 1},
                               {"log1p", [](double x) { return std::log1p(x); }, 2},
                               {"tanh", [](double x) { return std::tanh(x); }, 2.5},
                               {"erf", [](double x) { return std::erf(x); }, 2},
                               {"erfc", [](double x) { return std::erfc(x); }, 7},
                               {"sigmoid", Sigmoid, 2.5},
                               {"softplus", Softplus, 2}};

// The distance in units of the last place that a float of this size has.
double Ulps(float got, double want) {
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) == std::isnan(got) ? 0 : 1e30;
  if (std::signbit(got) != std::signbit(want)) return 1e30;
  // Above the largest float, infinity stands where the next float would be.
  auto limited = [](double x) { return std::min(std::fabs(x), 0x1p128); };
  const int exponent = want == 0 ? -126 : std::max(std::ilogb(limited(want)), -126);
  return std::fabs(limited(got) - limited(want)) / std::ldexp(1.0, std::min(exponent, 127) - 23);
}

void ExpectNear(const Function& function, const std::vector<float>& x) {
  const Type type{F32, {static_cast<int64_t>(x.size())}};
  HostTensor operand(type);
  std::copy(x.begin(), x.end(), operand.data<float>());
  const HostTensor result = Apply(function.op, {operand}, {}, type, {1, 17, type.shape[0] / 2 + 3});
  double worst = 0;
  size_t at = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double ulps = Ulps(result.data<float>()[i], function.exact(x[i]));
    if (ulps > worst) worst = ulps, at = i;
  }
  EXPECT_LE(worst, function.ulp) << fmt::format("{}({:a}) = {:a}, exactly {:a}", function.op, x[at],
                                                result.data<float>()[at], function.exact(x[at]));
}

TEST(VectorMathTest, IsWithinItsUnitsOfTheLastPlaceForAllFloats) {
  const int64_t step = EverySo(4099);
  constexpr size_t kPart = size_t{1} << 20;
  for (const Function& function : kFunctions) {
    std::vector<float> x;
    for (int64_t bits = 0; bits < int64_t{1} << 32; bits += step) {
      x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
      if (x.size() < kPart) continue;
      ExpectNear(function, x);
      x.clear();
    }
    ExpectNear(function, x);
    if (HasFailure()) return;
  }
}

TEST(VectorMathTest, IsRightAtTheEdges) {
  using Limits = std::numeric_limits<float>;
  std::vector<float> edges = {0,
                              Limits::denorm_min(),
                              Limits::min(),
                              0x1p-25f,
                              0x1p-24f,
                              0.5f,
                              1,
                              20,
                              87.3f,
                              88.0f,
                              88.7228317f,
                              88.7228394f,
                              89,
                              103.972076f,
                              103.972084f,
                              104,
                              10.05f,
                              10.1f,
                              Limits::max(),
                              Limits::infinity()};
  std::vector<float> x = {Limits::quiet_NaN()};
  for (const float edge : edges) {
    for (const float near : {std::nextafter(edge, -1.0f), edge, std::nextafter(edge, Limits::infinity())}) {
      x.push_back(near);
      x.push_back(-near);
    }
  }
  for (const Function& function : kFunctions) ExpectNear(function, x);
}

TEST(VectorMathTest, TanhAndErfStayWithinOne) {
  for (float x = 0; x < 40; x += 0x1p-10f) {
    for (const float y : {portable::Tanh(x), portable::Erf(x), -portable::Tanh(-x), -portable::Erf(-x)}) {
      ASSERT_GE(y, 0) << x;
      ASSERT_LE(y, 1) << x;
      if (x >= 9.02f) {
        ASSERT_EQ(y, 1) << x;
      }
    }
  }
}

}  // namespace
}  // namespace meshwork::vector_math_test
