// The kernels of elementwise rows and casts against plain loops, in every dtype and at the edges of each.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/ops/ops.h"
#include "ops/apply.h"
#include "ops/kernel_check.h"
#include "ops/special_numbers.h"
#include "support/interpreter.h"

namespace meshwork::elementwise_kernels_test {
namespace {

using ::testing::ElementsAre;

// The position of the element of an operand, broadcast right-aligned, that a result index reads.
int64_t BroadcastPosition(const Shape& shape, const Shape& index) {
  Shape own(index.end() - static_cast<std::ptrdiff_t>(shape.size()), index.end());
  for (size_t d = 0; d < shape.size(); ++d)
    if (shape[d] == 1) own[d] = 0;
  return Position(shape, own);
}

struct Binary {
  const char* op;
  std::function<double(double, double)> f;
  bool compares = false;
};

const std::vector<Binary>& Binaries() {
  static const auto* all = new std::vector<Binary>{
      {"add", [](double a, double b) { return a + b; }},
      {"sub", [](double a, double b) { return a - b; }},
      {"mul", [](double a, double b) { return a * b; }},
      {"maximum", [](double a, double b) { return a > b ? a : b; }},
      {"minimum", [](double a, double b) { return a < b ? a : b; }},
      {"equal", [](double a, double b) { return a == b; }, true},
      {"not_equal", [](double a, double b) { return a != b; }, true},
      {"less", [](double a, double b) { return a < b; }, true},
      {"less_equal", [](double a, double b) { return a <= b; }, true},
      {"greater", [](double a, double b) { return a > b; }, true},
      {"greater_equal", [](double a, double b) { return a >= b; }, true},
  };
  return *all;
}

TEST(ElementwiseKernelTest, BroadcastsAsAPlainLoopDoes) {
  std::mt19937 random(1);
  for (int round = 0; round < 1500; ++round) {
    const Binary& binary = Binaries()[static_cast<size_t>(round) % Binaries().size()];
    const DType dtype = kAllDTypes[random() % 4];  // not bool
    const std::vector<Shape> shapes = DrawBroadcast(random, 2);
    std::vector<HostTensor> operands;
    for (size_t o = 1; o <= 2; ++o)  // whole ones, so that some are equal
      operands.emplace_back(Type{dtype, shapes[o]}, Draw(random, NumElements(shapes[o]), -4, 5,
                                                         random() % 2 == 0 || IsInteger(dtype)));
    const Type result{binary.compares ? BOOL : dtype, shapes[0]};
    Numbers expected;
    for (int64_t i = 0; i < result.num_elements(); ++i) {
      const Shape index = IndexAt(shapes[0], i);
      expected.push_back(binary.f(operands[0].Numbers()[BroadcastPosition(shapes[1], index)],
                                  operands[1].Numbers()[BroadcastPosition(shapes[2], index)]));
    }
    SCOPED_TRACE(
        fmt::format("{} {} {}", binary.op, operands[0].type().ToString(), operands[1].type().ToString()));
    const HostTensor whole = Apply(binary.op, operands, {}, result);
    ASSERT_EQ(whole.Numbers(), HostTensor(result, expected).Numbers());
    ASSERT_EQ(Apply(binary.op, operands, {}, result, DrawCuts(random, result.num_elements())), whole);
  }
}

TEST(ElementwiseKernelTest, SelectBroadcastsAsAPlainLoopDoes) {
  std::mt19937 random(2);
  for (int round = 0; round < 300; ++round) {
    const DType dtype = kAllDTypes[random() % 5];
    const std::vector<Shape> shapes = DrawBroadcast(random, 3);
    const Type result{dtype, shapes[0]};
    std::vector<HostTensor> x;
    for (size_t o = 1; o <= 3; ++o)
      x.emplace_back(Type{o == 1 ? BOOL : dtype, shapes[o]},
                     Draw(random, NumElements(shapes[o]), 0, 2, true));
    Numbers expected;
    for (int64_t i = 0; i < result.num_elements(); ++i) {
      const Shape index = IndexAt(shapes[0], i);
      auto at = [&](size_t o) { return x[o].Numbers()[BroadcastPosition(shapes[o + 1], index)]; };
      expected.push_back(at(0) != 0 ? at(1) : at(2));
    }
    const HostTensor whole = Apply("select", x, {}, result);
    ASSERT_EQ(whole.Numbers(), expected);
    ASSERT_EQ(Apply("select", x, {}, result, DrawCuts(random, result.num_elements())), whole);
  }
}

TEST(ElementwiseKernelTest, RealDivisionFollowsIeee) {
  for (DType dtype : {F32, F64}) {
    const HostTensor a({dtype, {6}}, {1, -7, 1, -1, 0, kNaN}), b({dtype, {6}}, {4, 2, 0, 0, 0, 1});
    EXPECT_THAT(Apply("div", {a, b}, {}, a.type()).Numbers(),
                SameNumbers({0.25, -3.5, kInf, -kInf, kNaN, kNaN}));
  }
}

TEST(ElementwiseKernelTest, WholeDivisionRoundsTowardsZeroAndIsDefinedEverywhere) {
  const double min32 = -0x1p31;
  const HostTensor a({I32, {7}}, {7, -7, 7, -7, 5, 0, min32}), b({I32, {7}}, {2, 2, -2, -2, 0, 0, -1});
  EXPECT_THAT(Apply("div", {a, b}, {}, a.type()).Numbers(), ElementsAre(3, -3, -3, 3, 0, 0, min32));
  const HostTensor c({I64, {2}}, {-0x1p63, -0x1p63}), d({I64, {2}}, {-1, 0});
  EXPECT_THAT(Apply("div", {c, d}, {}, c.type()).Numbers(), ElementsAre(-0x1p63, 0));
}

TEST(ElementwiseKernelTest, WholeNumbersWrapAround) {
  const double max32 = 0x1p31 - 1, min32 = -0x1p31;
  const HostTensor a({I32, {3}}, {max32, min32, 65536}), b({I32, {3}}, {1, -1, 65537});
  EXPECT_THAT(Apply("add", {a, b}, {}, a.type()).Numbers(), ElementsAre(min32, max32, 131073));
  EXPECT_THAT(Apply("sub", {a, b}, {}, a.type()).Numbers(), ElementsAre(max32 - 1, min32 + 1, -1));
  EXPECT_THAT(Apply("mul", {a, b}, {}, a.type()).Numbers(), ElementsAre(max32, min32, 65536));
  EXPECT_THAT(Apply("neg", {a}, {}, a.type()).Numbers(), ElementsAre(-max32, min32, -65536));
}

TEST(ElementwiseKernelTest, MaximumAndMinimumAreNaNIfEitherIs) {
  for (DType dtype : {F32, F64}) {
    const HostTensor a({dtype, {5}}, {kNaN, 1, kNaN, -kInf, 2}), b({dtype, {5}}, {1, kNaN, kNaN, 3, kInf});
    EXPECT_THAT(Apply("maximum", {a, b}, {}, a.type()).Numbers(), SameNumbers({kNaN, kNaN, kNaN, 3, kInf}));
    EXPECT_THAT(Apply("minimum", {a, b}, {}, a.type()).Numbers(), SameNumbers({kNaN, kNaN, kNaN, -kInf, 2}));
    EXPECT_THAT(Apply("relu", {a}, {}, a.type()).Numbers(), SameNumbers({kNaN, 1, kNaN, 0, 2}));
  }
}

TEST(ElementwiseKernelTest, NaNComparesAsIeeeSays) {
  const HostTensor nan({F32, {2}}, {kNaN, kNaN}), other({F32, {2}}, {1, kNaN});
  for (const Binary& binary : Binaries()) {
    if (!binary.compares) continue;
    const double expected = std::string(binary.op) == "not_equal";
    EXPECT_THAT(Apply(binary.op, {nan, other}, {}, {BOOL, {2}}).Numbers(), ElementsAre(expected, expected))
        << binary.op;
    EXPECT_THAT(Apply(binary.op, {other, nan}, {}, {BOOL, {2}}).Numbers(), ElementsAre(expected, expected))
        << binary.op;
  }
}

TEST(ElementwiseKernelTest, FunctionsOfOneNumberAgreeWithTheStandardLibrary) {
  const std::map<std::string, double (*)(double)> functions = {
      {"exp", [](double x) { return std::exp(x); }},
      {"log", [](double x) { return std::log(x); }},
      {"sqrt", [](double x) { return std::sqrt(x); }},
      {"rsqrt", [](double x) { return 1 / std::sqrt(x); }},
      {"tanh", [](double x) { return std::tanh(x); }},
      {"relu", [](double x) { return x > 0 ? x : 0; }},
      {"neg", [](double x) { return -x; }},
      {"stop_gradient", [](double x) { return x; }},
  };
  std::mt19937 random(3);
  for (const auto& [op, f] : functions) {
    const bool positive = op == "log" || op == "sqrt" || op == "rsqrt";
    for (DType dtype : {F32, F64}) {
      const Type type{dtype, {3, 67}};
      const HostTensor x(type, Draw(random, type.num_elements(), positive ? 1e-3 : -8, 8, false));
      const HostTensor whole = Apply(op, {x}, {}, type);
      const Numbers got = whole.Numbers(), from = x.Numbers();
      for (size_t i = 0; i < got.size(); ++i)
        ASSERT_NEAR(got[i], f(from[i]), (dtype == F32 ? 3e-7 : 6e-16) * std::max(1e-3, std::abs(f(from[i]))))
            << op;
      EXPECT_EQ(Apply(op, {x}, {}, type, DrawCuts(random, type.num_elements())), whole) << op;
    }
  }
}

TEST(ElementwiseKernelTest, CastsToWholeNumbersClampAndRoundTowardsZero) {
  const Numbers x = {2.9, -2.9, 0.5, 1e30, -1e30, kInf, -kInf, kNaN, 2147483647, -2147483648.0};
  for (DType from : {F32, F64}) {
    const HostTensor a({from, {10}}, x);
    const double max32 = 2147483647, min32 = -2147483648.0;
    EXPECT_THAT(Apply("cast", {a}, {{"dtype", I32}}, {I32, {10}}).Numbers(),
                ElementsAre(2, -2, 0, max32, min32, max32, min32, 0, max32, min32));
    const HostTensor whole = Apply("cast", {a}, {{"dtype", I64}}, {I64, {10}});
    const int64_t max64 = std::numeric_limits<int64_t>::max(), min64 = std::numeric_limits<int64_t>::min();
    EXPECT_EQ(whole.data<int64_t>()[3], max64);
    EXPECT_EQ(whole.data<int64_t>()[4], min64);
    EXPECT_EQ(whole.data<int64_t>()[5], max64);
    EXPECT_EQ(whole.data<int64_t>()[6], min64);
    EXPECT_EQ(whole.data<int64_t>()[7], 0);
    EXPECT_EQ(whole.data<int64_t>()[8], from == F32 ? int64_t{2147483648} : int64_t{2147483647});
    EXPECT_THAT(Apply("cast", {a}, {{"dtype", BOOL}}, {BOOL, {10}}).Numbers(),
                ElementsAre(1, 1, 1, 1, 1, 1, 1, 1, 1, 1));
  }
}

TEST(ElementwiseKernelTest, CastsOfSmallWholeNumbersAreExactBetweenAllDtypes) {
  for (DType from : kAllDTypes) {
    for (DType to : kAllDTypes) {
      const Numbers x = Rounded(from, {0, 1, 7, 100});
      EXPECT_EQ(Apply("cast", {HostTensor({from, {4}}, x)}, {{"dtype", to}}, {to, {4}}).Numbers(),
                Rounded(to, x))
          << DTypeName(from) << " -> " << DTypeName(to);
    }
  }
  // Between whole numbers the high bits are dropped.
  EXPECT_THAT(Apply("cast", {HostTensor({I64, {2}}, {0x1p32 + 5, -0x1p32 - 5})}, {{"dtype", I32}}, {I32, {2}})
                  .Numbers(),
              ElementsAre(5, -5));
}

}  // namespace
}  // namespace meshwork::elementwise_kernels_test
