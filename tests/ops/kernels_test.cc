// The rows' CPU kernels against plain loops.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/text.h"
#include "meshwork/kernels/blas/gemm.h"
#include "meshwork/ops/ops.h"
#include "ops/apply.h"
#include "support/interpreter.h"

namespace meshwork {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::NanSensitiveDoubleEq;
using Ints = std::vector<int64_t>;
using Numbers = std::vector<double>;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

auto SameNumbers(const Numbers& expected) {
  std::vector<::testing::Matcher<double>> each;
  for (double x : expected) each.push_back(NanSensitiveDoubleEq(x));
  return ElementsAreArray(each);
}

// `numbers` as elements of the dtype are: f32 rounds.
Numbers Rounded(DType dtype, Numbers numbers) {
  return HostTensor({dtype, {static_cast<int64_t>(numbers.size())}}, numbers).Numbers();
}

// Where an operand of `shape`, broadcast right-aligned, has the element of a result index.
int64_t BroadcastPosition(const Shape& shape, const Shape& index) {
  Shape own(index.end() - static_cast<std::ptrdiff_t>(shape.size()), index.end());
  for (size_t d = 0; d < shape.size(); ++d)
    if (shape[d] == 1) own[d] = 0;
  return Position(shape, own);
}

// A result shape of up to four dims and operand shapes that broadcast to it; the first one has every
// dim, so that the result is what they broadcast to.
std::vector<Shape> DrawBroadcast(std::mt19937& random, size_t operands) {
  auto below = [&](int n) { return static_cast<int64_t>(random() % static_cast<unsigned>(n)); };
  Shape result;
  for (int64_t rank = below(5); rank > 0; --rank) result.push_back(below(16) == 0 ? 0 : 1 + below(5));
  std::vector<Shape> shapes = {result, result};
  for (size_t o = 1; o < operands; ++o) {
    Shape shape(result.begin() + below(static_cast<int>(result.size()) + 1), result.end());
    for (int64_t& size : shape)
      if (below(3) == 0) size = 1;
    shapes.push_back(shape);
  }
  if (below(2) == 0) std::swap(shapes[1], shapes.back());
  return shapes;
}

// ---- Elementwise.

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

// ---- Shapes.

TEST(ShapeKernelTest, BroadcastToRepeatsAsAPlainLoopDoes) {
  std::mt19937 random(4);
  for (int round = 0; round < 300; ++round) {
    const Shape shape = DrawBroadcast(random, 1)[0];
    Shape from;
    Ints dims;
    for (size_t d = 0; d < shape.size(); ++d) {
      if (random() % 3 == 0) continue;
      dims.push_back(static_cast<int64_t>(d));
      from.push_back(random() % 3 == 0 ? 1 : shape[d]);
    }
    const DType dtype = kAllDTypes[random() % 5];
    const HostTensor x({dtype, from}, Draw(random, NumElements(from), 0, dtype == BOOL ? 2 : 100, true));
    Numbers expected;
    for (int64_t i = 0; i < NumElements(shape); ++i) {
      Shape index(from.size());
      for (size_t k = 0; k < from.size(); ++k) index[k] = from[k] == 1 ? 0 : IndexAt(shape, i)[dims[k]];
      expected.push_back(x.Numbers()[Position(from, index)]);
    }
    const Attrs attrs = {{"shape", Ints(shape.begin(), shape.end())}, {"dims", dims}};
    const HostTensor whole = Apply("broadcast_to", {x}, attrs, {dtype, shape});
    ASSERT_EQ(whole.Numbers(), expected) << x.type().ToString() << " to " << ShapeToString(shape);
    ASSERT_EQ(Apply("broadcast_to", {x}, attrs, {dtype, shape}, DrawCuts(random, NumElements(shape))), whole);
  }
}

TEST(ShapeKernelTest, TransposesAsAPlainLoopDoes) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    const Shape from = DrawBroadcast(random, 1)[0];
    Ints permutation;
    for (size_t d = 0; d < from.size(); ++d) permutation.push_back(static_cast<int64_t>(d));
    std::shuffle(permutation.begin(), permutation.end(), random);
    Shape shape;
    for (int64_t d : permutation) shape.push_back(from[d]);
    const DType dtype = kAllDTypes[random() % 5];
    const HostTensor x({dtype, from}, Draw(random, NumElements(from), 0, dtype == BOOL ? 2 : 100, true));
    Numbers expected;
    for (int64_t i = 0; i < NumElements(shape); ++i) {
      Shape index(from.size());
      for (size_t d = 0; d < from.size(); ++d) index[permutation[d]] = IndexAt(shape, i)[d];
      expected.push_back(x.Numbers()[Position(from, index)]);
    }
    const HostTensor whole = Apply("transpose", {x}, {{"permutation", permutation}}, {dtype, shape});
    ASSERT_EQ(whole.Numbers(), expected);
    ASSERT_EQ(Apply("transpose", {x}, {{"permutation", permutation}}, {dtype, shape},
                    DrawCuts(random, NumElements(shape))),
              whole);
  }
}

TEST(ShapeKernelTest, ReshapeKeepsTheElementsInOrder) {
  const HostTensor x({I64, {2, 3}}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(Apply("reshape", {x}, {{"shape", Ints{3, 2}}}, {I64, {3, 2}}, {1, 4}).Numbers(), x.Numbers());
}

TEST(ShapeKernelTest, DimensionSizeIsThatOfTheWhole) {
  const OpRow& row = GetOp("dimension_size");
  const Attrs attrs = Graph::CompleteAttrs(row, {{"dims", Ints{0, 2}}, {"dtype", I32}}).value();
  // A device that holds 2 of 7 rows.
  std::vector<TensorPart> result = {HostTensor({I32, {}})};
  RunKernel(row, attrs,
            {TensorPart(HostTensor({F32, {2, 3, 5}}), {F32, {7, 3, 5}}, {{2, 2}, {0, 3}, {0, 5}})}, result);
  EXPECT_EQ(result[0].local.Number(), 35);
}

// ---- Reductions.

// Folds the elements of each result element in order.
Numbers PlainReduce(const HostTensor& x, const Ints& dims, double start,
                    const std::function<double(double, double)>& f) {
  const Shape& from = x.type().shape;
  Shape kept;
  for (int64_t d = 0; d < static_cast<int64_t>(from.size()); ++d)
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) kept.push_back(from[d]);
  Numbers result(static_cast<size_t>(NumElements(kept)), start);
  for (int64_t i = 0; i < NumElements(from); ++i) {
    Shape to;
    for (int64_t d = 0; d < static_cast<int64_t>(from.size()); ++d)
      if (std::find(dims.begin(), dims.end(), d) == dims.end()) to.push_back(IndexAt(from, i)[d]);
    double& at = result[Position(kept, to)];
    at = f(at, x.Numbers()[i]);
  }
  return result;
}

TEST(ReduceKernelTest, ReducesAnyDimsAsAPlainLoopDoes) {
  std::mt19937 random(6);
  for (int round = 0; round < 400; ++round) {
    const Shape from = DrawBroadcast(random, 1)[0];
    Ints dims;
    Shape kept;
    int64_t count = 1;
    for (size_t d = 0; d < from.size(); ++d) {
      if (random() % 2 == 0) {
        dims.push_back(static_cast<int64_t>(d));
        count *= from[d];
      } else {
        kept.push_back(from[d]);
      }
    }
    const DType dtype = kAllDTypes[random() % 4];
    const HostTensor x({dtype, from}, Draw(random, NumElements(from), -50, 50, true));  // sums are exact
    const Type result{dtype, kept};
    const Ints cuts = DrawCuts(random, NumElements(kept));
    SCOPED_TRACE(fmt::format("{} over {} dims", x.type().ToString(), dims.size()));
    const Numbers exact = PlainReduce(x, dims, 0, [](double a, double b) { return a + b; });
    const Numbers sum = Rounded(dtype, exact);
    EXPECT_EQ(Apply("reduce_sum", {x}, {{"dims", dims}}, result).Numbers(), sum);
    EXPECT_EQ(Apply("reduce_sum", {x}, {{"dims", dims}}, result, cuts).Numbers(), sum);
    if (count > 0) {
      const Numbers max = PlainReduce(x, dims, -kInf, [](double a, double b) { return std::max(a, b); });
      EXPECT_EQ(Apply("reduce_max", {x}, {{"dims", dims}}, result).Numbers(), max);
      EXPECT_EQ(Apply("reduce_max", {x}, {{"dims", dims}}, result, cuts).Numbers(), max);
    }
    if (!IsFloat(dtype) || count == 0) continue;
    const Numbers mean = Apply("reduce_mean", {x}, {{"dims", dims}}, result, cuts).Numbers();
    const double tolerance = dtype == F32 ? 1e-5 : dtype == F64 ? 1e-13 : 0.126;  // bf16: half a step at 50
    for (size_t i = 0; i < mean.size(); ++i)
      EXPECT_NEAR(mean[i], exact[i] / static_cast<double>(count), tolerance);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(ReduceKernelTest, NothingReducesToTheIdentity) {
  const HostTensor reals({F32, {2, 0}}), whole({I32, {2, 0}});
  EXPECT_THAT(Apply("reduce_sum", {reals}, {{"dims", Ints{1}}}, {F32, {2}}).Numbers(), ElementsAre(0, 0));
  EXPECT_THAT(Apply("reduce_max", {reals}, {{"dims", Ints{1}}}, {F32, {2}}).Numbers(),
              ElementsAre(-kInf, -kInf));
  EXPECT_THAT(Apply("reduce_max", {whole}, {{"dims", Ints{1}}}, {I32, {2}}).Numbers(),
              ElementsAre(-0x1p31, -0x1p31));
  EXPECT_TRUE(Apply("reduce_sum", {reals}, {{"dims", Ints{0}}}, {F32, {0}}).Numbers().empty());
}

TEST(ReduceKernelTest, ANaNAnywhereIsTheMaximum) {
  for (int64_t n : {1, 7, 8, 9, 40}) {  // within and across the lanes of the loop
    for (int64_t at = 0; at < n; ++at) {
      Numbers x(static_cast<size_t>(n), kInf);
      x[at] = kNaN;
      for (const Shape& shape : {Shape{n}, Shape{1, n}, Shape{n, 1}}) {
        const Ints dims = shape.size() == 1 ? Ints{0} : Ints{0, 1};
        EXPECT_TRUE(std::isnan(
            Apply("reduce_max", {HostTensor({F64, shape}, x)}, {{"dims", dims}}, {F64, {}}).Number()));
      }
      // Along the major dim, where the fold runs element by element.
      Numbers columns;
      for (double v : x) columns.insert(columns.end(), {v, 1});
      EXPECT_THAT(Apply("reduce_max", {HostTensor({F64, {n, 2}}, columns)}, {{"dims", Ints{0}}}, {F64, {2}})
                      .Numbers(),
                  SameNumbers({kNaN, 1}));
    }
  }
}

TEST(ReduceKernelTest, SumsOfWholeNumbersWrapAround) {
  const HostTensor x({I32, {3}}, {2147483647, 1, 5});
  EXPECT_EQ(Apply("reduce_sum", {x}, {{"dims", Ints{0}}}, {I32, {}}).Number(), -2147483643.0);
}

TEST(ReduceKernelTest, PartialMeansDivideByTheWholeSize) {
  const OpRow& row = GetOp("reduce_mean");
  const Attrs attrs = Graph::CompleteAttrs(row, {{"dims", Ints{0}}}).value();
  double sum = 0;
  for (const Numbers& half : {Numbers{1, 2, 3}, Numbers{4, 5, 6}}) {
    std::vector<TensorPart> result = {HostTensor({F64, {}})};
    RunKernel(row, attrs, {TensorPart(HostTensor({F64, {3}}, half), {F64, {6}}, {{half[0] == 1 ? 0 : 3, 3}})},
              result);
    sum += result[0].local.Number();
  }
  EXPECT_DOUBLE_EQ(sum, 3.5);
}

TEST(ArgmaxKernelTest, TiesGoToTheLowestIndexAndTheFirstNaNWins) {
  auto argmax = [](const Numbers& x) {
    return Apply("argmax", {HostTensor({F32, {static_cast<int64_t>(x.size())}}, x)}, {{"dim", int64_t{0}}},
                 {I32, {}})
        .Number();
  };
  EXPECT_EQ(argmax({1, 3, 2, 3}), 1);
  EXPECT_EQ(argmax({2, 2, 2}), 0);
  EXPECT_EQ(argmax({-5}), 0);
  EXPECT_EQ(argmax({-kInf, -kInf}), 0);
  EXPECT_EQ(argmax({1, kNaN, kInf, kNaN}), 1);
  EXPECT_EQ(argmax({kNaN, 1}), 0);
  EXPECT_EQ(argmax({0, 1, kNaN}), 2);
}

TEST(ArgmaxKernelTest, FollowsAnyDim) {
  std::mt19937 random(7);
  for (DType dtype : {F32, F64, I32, I64}) {
    const Type type{dtype, {3, 4, 5}};
    const HostTensor x(type, Draw(random, 60, -3, 3, true));
    const Numbers values = x.Numbers();
    for (int64_t dim = 0; dim < 3; ++dim) {
      Shape shape = type.shape;
      shape.erase(shape.begin() + dim);
      Numbers expected;
      for (int64_t i = 0; i < NumElements(shape); ++i) {
        int64_t best = 0;
        auto at = [&](int64_t k) {
          Shape index = IndexAt(shape, i);
          index.insert(index.begin() + dim, k);
          return values[Position(type.shape, index)];
        };
        for (int64_t k = 1; k < type.shape[dim]; ++k)
          if (at(k) > at(best)) best = k;
        expected.push_back(static_cast<double>(best));
      }
      EXPECT_EQ(Apply("argmax", {x}, {{"dim", dim}}, {I32, shape}).Numbers(), expected);
      EXPECT_EQ(Apply("argmax", {x}, {{"dim", dim}}, {I32, shape}, {2, 7}).Numbers(), expected);
    }
  }
}

// ---- Matrix product.

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

// ---- Values made in place, and what depends on where a block lies.

TEST(GenerateKernelTest, ConstantsFillTheTensor) {
  for (DType dtype : kAllDTypes) {
    EXPECT_THAT(
        Apply("constant", {}, {{"value", 1.0}, {"dtype", dtype}, {"shape", Ints{3}}}, {dtype, {3}}, {1})
            .Numbers(),
        ElementsAre(1, 1, 1));
  }
  EXPECT_EQ(Apply("constant", {}, {{"value", 0.1}, {"dtype", F32}, {"shape", Ints{}}}, {F32, {}}).Number(),
            0.1f);
}

TEST(GenerateKernelTest, OneHotIsZeroOutOfRange) {
  const HostTensor x({I64, {4}}, {2, 0, -1, 3});
  EXPECT_THAT(Apply("one_hot", {x}, {{"depth", int64_t{3}}, {"dtype", F64}}, {F64, {4, 3}}, {1, 3}).Numbers(),
              ElementsAre(0, 0, 1, /**/ 1, 0, 0, /**/ 0, 0, 0, /**/ 0, 0, 0));
}

// The part of a whole tensor that `device` holds under a layout; padding is 77.
TensorPart PartOf(const HostTensor& whole, const Layout& layout, int64_t device) {
  const Shape& shape = whole.type().shape;
  const Type local{whole.type().dtype, layout.LocalShape(shape)};
  const Block block = layout.BlockOf(shape, device);
  Numbers numbers;
  for (int64_t i = 0; i < local.num_elements(); ++i) {
    Shape index = IndexAt(local.shape, i);
    bool inside = true;
    for (size_t d = 0; d < index.size(); ++d) {
      inside &= index[d] < block[d].size;
      index[d] += block[d].start;
    }
    numbers.push_back(inside ? whole.Numbers()[Position(shape, index)] : 77);
  }
  return {HostTensor(local, numbers), whole.type(), block};
}

// Expects the two parts to agree within their block; padding may be anything.
void ExpectSameWithinBlock(const TensorPart& got, const TensorPart& want) {
  ASSERT_EQ(got.local.type(), want.local.type());
  const Numbers a = got.local.Numbers(), b = want.local.Numbers();
  for (int64_t i = 0; i < got.local.type().num_elements(); ++i) {
    const Shape index = IndexAt(got.local.type().shape, i);
    bool inside = true;
    for (size_t d = 0; d < index.size(); ++d) inside &= index[d] < want.block[d].size;
    if (!inside) continue;
    ASSERT_EQ(a[i], b[i]) << ShapeToString(index);
  }
}

TEST(BlockKernelTest, EveryDeviceMakesItsOwnPart) {
  const Mesh mesh = Mesh::Parse("x=3,y=2").value();
  const Shape shape = {7, 5};
  const std::pair<const char*, Attrs> kGenerators[] = {
      {"iota", {{"dim", int64_t{0}}, {"dtype", I32}}},
      {"iota", {{"dim", int64_t{1}}, {"dtype", F64}}},
      {"random_uniform", {{"seed", int64_t{3}}, {"low", -1.0}}},
      {"random_normal", {{"seed", int64_t{3}}, {"stream", int64_t{1}}, {"dtype", F64}}},
  };
  for (const auto& [op, attrs] : kGenerators) {
    const OpRow& row = GetOp(op);
    Attrs given = attrs;
    given.Set("shape", Ints(shape.begin(), shape.end()));
    const Type type{std::get<DType>(*Graph::CompleteAttrs(row, given)->Find("dtype")), shape};
    const HostTensor whole = Apply(op, {}, given, type);
    for (const char* text : {"{x,y}", "{(y,x),_}", "{_,(x,y)}", "{_,_}"}) {
      const Layout layout = Layout::Parse(mesh, text).value();
      for (int64_t device = 0; device < mesh.num_devices(); ++device) {
        const TensorPart want = PartOf(whole, layout, device);
        std::vector<TensorPart> got = {{HostTensor(want.local.type()), want.global, want.block}};
        Attrs local = given;
        local.Set("shape", Ints(want.local.type().shape.begin(), want.local.type().shape.end()));
        RunKernel(row, Graph::CompleteAttrs(row, local).value(), {}, got, {1});
        ExpectSameWithinBlock(got[0], want);
      }
    }
  }
}

TEST(BlockKernelTest, OneHotMakesItsPartOfTheDepth) {
  const Mesh mesh = Mesh::Parse("x=3,y=2").value();
  const HostTensor x({I32, {5}}, {6, 0, -3, 9, 4});
  const HostTensor whole = Apply("one_hot", {x}, {{"depth", int64_t{7}}}, {F32, {5, 7}});
  const Layout in = Layout::Parse(mesh, "{y}").value(), out = Layout::Parse(mesh, "{y,x}").value();
  for (int64_t device = 0; device < mesh.num_devices(); ++device) {
    const TensorPart want = PartOf(whole, out, device);
    std::vector<TensorPart> got = {{HostTensor(want.local.type()), want.global, want.block}};
    RunKernel(GetOp("one_hot"), {{"depth", want.local.type().shape[1]}, {"dtype", F32}},
              {PartOf(x, in, device)}, got);
    ExpectSameWithinBlock(got[0], want);
  }
}

TEST(BlockKernelTest, ShardSliceKeepsTheDevicesPart) {
  const Mesh mesh = Mesh::Parse("x=3,y=2").value();
  std::mt19937 random(9);
  for (DType dtype : kAllDTypes) {
    const HostTensor whole({dtype, {7, 5, 2}}, Draw(random, 70, 0, dtype == BOOL ? 2 : 90, true));
    struct Case {
      const char *from, *to;
      int64_t dim;
    };
    for (const Case& c : {Case{"{_,_,_}", "{x,_,_}", 0},
                          {"{x,_,_}", "{(x,y),_,_}", 0},
                          {"{_,_,y}", "{_,x,y}", 1},
                          {"{x,_,_}", "{x,_,y}", 2},
                          {"{_,_,_}", "{_,(y,x),_}", 1}}) {
      const Layout from = Layout::Parse(mesh, c.from).value(), to = Layout::Parse(mesh, c.to).value();
      for (int64_t device = 0; device < mesh.num_devices(); ++device) {
        const TensorPart want = PartOf(whole, to, device);
        std::vector<TensorPart> got = {{HostTensor(want.local.type()), want.global, want.block}};
        RunKernel(GetOp("shard_slice"), {{"axes", AxisList{0}}, {"dim", c.dim}},
                  {PartOf(whole, from, device)}, got, {1});
        ExpectSameWithinBlock(got[0], want);
      }
    }
  }
}

TEST(BlockKernelTest, MaskPaddingFillsTheMaskedDimsWithTheIdentity) {
  const Mesh mesh = Mesh::Parse("x=3,y=2").value();
  const Layout layout = Layout::Parse(mesh, "{x,y}").value();
  auto identity = [](DType dtype, ReduceOp op) -> double {
    if (op == ReduceOp::kSum || op == ReduceOp::kOr) return 0;
    if (op == ReduceOp::kProd || op == ReduceOp::kAnd) return 1;
    const double limit = dtype == I32 ? 0x1p31 : 0x1p63;
    const double largest = IsFloat(dtype) ? kInf : dtype == I32 ? limit - 1 : limit;  // 2^63 - 1 as a double
    return op == ReduceOp::kMin ? largest : IsFloat(dtype) ? -kInf : -limit;
  };
  std::mt19937 random(10);
  for (DType dtype : kAllDTypes) {
    const HostTensor whole({dtype, {7, 5}}, Draw(random, 35, 0, dtype == BOOL ? 2 : 70, true));
    for (ReduceOp op : kAllReduceOps) {
      if ((op == ReduceOp::kAnd || op == ReduceOp::kOr) != (dtype == BOOL)) continue;
      for (const Ints& dims : {Ints{}, Ints{0}, Ints{1}, Ints{0, 1}}) {
        for (int64_t device = 0; device < mesh.num_devices(); ++device) {
          const TensorPart in = PartOf(whole, layout, device);
          Numbers expected = in.local.Numbers();
          std::vector<bool> known(expected.size(), true);
          for (size_t i = 0; i < expected.size(); ++i) {
            const Shape index = IndexAt(in.local.type().shape, static_cast<int64_t>(i));
            bool masked = false;
            for (int64_t d = 0; d < 2; ++d) {
              if (index[d] < in.block[d].size) continue;
              known[i] = false;
              masked |= std::find(dims.begin(), dims.end(), d) != dims.end();
            }
            if (masked) {
              expected[i] = identity(dtype, op);
              known[i] = true;
            }
          }
          std::vector<TensorPart> got = {{HostTensor(in.local.type()), in.global, in.block}};
          RunKernel(GetOp("mask_padding"), {{"dims", dims}, {"op", op}}, {in}, got, {1});
          const Numbers numbers = got[0].local.Numbers();
          for (size_t i = 0; i < expected.size(); ++i) {
            if (!known[i]) continue;
            ASSERT_EQ(numbers[i], expected[i]) << "device " << device << " element " << i;
          }
        }
      }
    }
  }
}

TEST(BlockKernelTest, MaskPaddingTakesScalarsAndEmptyBlocks) {
  std::vector<TensorPart> scalar = {HostTensor({F32, {}})};
  RunKernel(GetOp("mask_padding"), {{"dims", Ints{}}, {"op", ReduceOp::kSum}}, {HostTensor({F32, {}}, {5})},
            scalar);
  EXPECT_EQ(scalar[0].local.Number(), 5);
  std::vector<TensorPart> empty = {HostTensor({F32, {2, 0}})};
  RunKernel(GetOp("mask_padding"), {{"dims", Ints{1}}, {"op", ReduceOp::kSum}}, {HostTensor({F32, {2, 0}})},
            empty);
  EXPECT_TRUE(empty[0].local.Numbers().empty());
}

// ---- Adam.

TEST(AdamKernelTest, FollowsTheFormula) {
  constexpr double kRate = 0.1, kB1 = 0.8, kB2 = 0.95, kEpsilon = 1e-3;
  std::mt19937 random(11);
  for (DType dtype : {F32, F64, BF16}) {
    for (auto [step, decay] : {std::pair(1.0, 0.0), {2.0, 0.25}, {100.0, 0.0}}) {
      const Attrs attrs = {{"learning_rate", kRate},
                           {"beta1", kB1},
                           {"beta2", kB2},
                           {"epsilon", kEpsilon},
                           {"weight_decay", decay}};
      const Type type{dtype, {3, 37}};
      const auto n = static_cast<size_t>(type.num_elements());
      const HostTensor w(type, Draw(random, 111, -1, 1, false)), g(type, Draw(random, 111, -1, 1, false)),
          m(type, Draw(random, 111, -1, 1, false)), v(type, Draw(random, 111, 0, 1, false)),
          t({I64, {}}, {step});
      auto run = [&](const Ints& cuts) {
        std::vector<TensorPart> results(3, HostTensor(type));
        RunKernel(GetOp("adam_update"), attrs, {w, g, m, v, t}, results, cuts);
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

// ---- All rows.

// The program of one node that a sample stands for: "f32[4,6], f32[6]; dims=[0]".
std::string ProgramOf(const OpRow& row, std::string_view sample) {
  const std::string_view types = sample.substr(0, sample.find(';'));
  const std::string_view attrs =
      sample.find(';') == std::string_view::npos ? "" : sample.substr(sample.find(';') + 1);
  std::string arguments, operands, results;
  int count = 0;
  for (size_t at = 0; at < types.size();) {
    size_t end = types.find("],", at);
    end = end == std::string_view::npos ? types.size() : end + 1;
    arguments += fmt::format("{}%x{}: {}", count == 0 ? "" : ", ", count, types.substr(at, end - at));
    operands += fmt::format("{}%x{}", count == 0 ? "" : ", ", count);
    ++count;
    at = end + 1;
  }
  for (int r = 0; r < row.num_results; ++r) results += fmt::format("{}%{}", r == 0 ? "" : ", ", r);
  return fmt::format("mesh []\nfunc f({}) {{\n  {} = {} {} {}\n}}\n", arguments, results, row.name, operands,
                     attrs);
}

TEST(KernelTest, OfEveryRowGivesTheSameInAnyPieces) {
  std::mt19937 random(12);
  int kernels = 0;
  for (const OpRow* row : AllOps()) {
    for (std::string_view sample : row->samples) {
      SCOPED_TRACE(fmt::format("{} {}", row->name, sample));
      const Graph graph = ParseGraph(ProgramOf(*row, sample)).value();
      const Node& node = graph.nodes()[0];
      std::vector<TensorPart> operands, whole, pieces;
      for (ValueId id : node.operands) {
        const Type& type = graph.value(id).type;
        operands.emplace_back(
            HostTensor(type, Draw(random, type.num_elements(), IsFloat(type.dtype) ? row->sample_low : 0,
                                  IsFloat(type.dtype) ? row->sample_high : (type.dtype == BOOL ? 2 : 5),
                                  !IsFloat(type.dtype))));
      }
      for (ValueId id : node.results) whole.emplace_back(HostTensor(graph.value(id).type));
      pieces = whole;
      RunKernel(*row, node.attrs, operands, whole);
      RunKernel(*row, node.attrs, operands, pieces, {1, 2, 3, 5, 8, 13, 21});
      for (size_t r = 0; r < whole.size(); ++r) EXPECT_EQ(pieces[r].local, whole[r].local);
      ++kernels;
    }
  }
  EXPECT_GT(kernels, 60);
}

}  // namespace
}  // namespace meshwork
