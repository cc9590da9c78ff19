// The reductions against plain loops: folds over any dims, in every dtype, however the work is cut.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/ops/ops.h"
#include "support/interpreter.h"

namespace meshwork::reduce_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Ints = std::vector<int64_t>;
using Numbers = std::vector<double>;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

// The result of a row, its work cut at `cuts`.
HostTensor Apply(std::string_view op, const HostTensor& x, const Attrs& attrs, const Type& result,
                 const Ints& cuts = {}) {
  std::vector<TensorPart> out = {HostTensor(result)};
  RunKernel(GetOp(op), Graph::CompleteAttrs(GetOp(op), attrs).value(), {x}, out, cuts);
  return out[0].local;
}

struct Folded {
  Type type;
  Numbers values;
};

// By result: the elements that it combines, folded in order in extended precision.
Folded PlainFold(const HostTensor& x, const Ints& dims, double start,
                 const std::function<long double(long double, long double)>& f) {
  const Shape& from = x.type().shape;
  Folded folded{{x.type().dtype, {}}, {}};
  for (size_t d = 0; d < from.size(); ++d)
    if (std::count(dims.begin(), dims.end(), static_cast<int64_t>(d)) == 0)
      folded.type.shape.push_back(from[d]);
  std::vector<long double> totals(static_cast<size_t>(folded.type.num_elements()), start);
  const Numbers values = x.Numbers();
  for (int64_t i = 0; i < x.type().num_elements(); ++i) {
    int64_t rest = i, to = 0, stride = 1;
    for (size_t d = from.size(); d-- > 0; rest /= from[d]) {
      if (std::count(dims.begin(), dims.end(), static_cast<int64_t>(d)) > 0) continue;
      to += rest % from[d] * stride;
      stride *= from[d];
    }
    totals[to] = f(totals[to], values[i]);
  }
  for (long double total : totals) folded.values.push_back(static_cast<double>(total));
  return folded;
}

struct ReductionCase {
  const char* op;
  double start;
  std::function<long double(long double, long double)> f;
};

const std::vector<ReductionCase>& Reductions() {
  static const auto* all = new std::vector<ReductionCase>{
      {"reduce_sum", 0, [](long double a, long double b) { return a + b; }},
      {"reduce_prod", 1, [](long double a, long double b) { return a * b; }},
      {"reduce_max", -kInf, [](long double a, long double b) { return std::max(a, b); }},
      {"reduce_min", kInf, [](long double a, long double b) { return std::min(a, b); }},
      {"reduce_all", 1, [](long double a, long double b) { return a != 0 && b != 0; }},
      {"reduce_any", 0, [](long double a, long double b) { return a != 0 || b != 0; }},
  };
  return *all;
}

bool IsLogical(const ReductionCase& r) {
  return r.op == std::string("reduce_all") || r.op == std::string("reduce_any");
}

// All subsets of the dims of a shape.
std::vector<Ints> Subsets(const Shape& shape) {
  std::vector<Ints> subsets;
  for (unsigned bits = 0; bits < 1u << shape.size(); ++bits) {
    subsets.emplace_back();
    for (size_t d = 0; d < shape.size(); ++d)
      if (bits >> d & 1) subsets.back().push_back(static_cast<int64_t>(d));
  }
  return subsets;
}

// Values whose sums and products are exact in every dtype: factors are ±1 and, if they are few, 2.
Numbers DrawOperand(std::mt19937& random, const ReductionCase& reduction, const Type& type) {
  const double two = type.num_elements() < 100 ? 2 : 1;
  Numbers x;
  for (int64_t i = type.num_elements(); i > 0; --i) {
    const auto n = static_cast<double>(random() % 7);
    if (type.dtype == BOOL) x.push_back(random() % 5 == 0 ? reduction.start == 0 : reduction.start);
    else if (reduction.op == std::string("reduce_prod")) x.push_back(n == 0 ? two : n < 4 ? 1 : -1);
    else x.push_back(n - 3);
  }
  return x;
}

TEST(ReduceTest, FoldsAnyDimsOfAnyShapeAsAPlainLoopDoes) {
  std::mt19937 random(1);
  const std::vector<Shape> shapes = {{},
                                     {7},
                                     {1},
                                     {20},
                                     {4, 6},
                                     {5, 17},
                                     {3, 1, 4},
                                     {2, 3, 4},
                                     {1, 1, 3},
                                     {2, 3, 1, 4},
                                     {3, 600},
                                     {600, 3},
                                     {2, 520, 3},
                                     {2, 3, 2, 3, 2},
                                     {2, 2, 9, 2, 2, 2},
                                     {0, 3},
                                     {3, 0},
                                     {2, 0, 3}};
  for (const ReductionCase& reduction : Reductions()) {
    for (DType dtype : kComputeDTypes) {
      if (IsLogical(reduction) != (dtype == BOOL)) continue;
      for (const Shape& shape : shapes) {
        const HostTensor x({dtype, shape}, DrawOperand(random, reduction, {dtype, shape}));
        for (const Ints& dims : Subsets(shape)) {
          SCOPED_TRACE(fmt::format("{} of {} over {} dims", reduction.op, x.type().ToString(), dims.size()));
          const Folded want = PlainFold(x, dims, reduction.start, reduction.f);
          if (NumElements(shape) == 0 && !IsFloat(dtype) && std::isinf(reduction.start)) continue;
          const HostTensor expected(want.type, want.values);  // rounded once
          ASSERT_EQ(Apply(reduction.op, x, {{"dims", dims}}, want.type), expected);
          const int64_t n = want.type.num_elements();
          ASSERT_EQ(Apply(reduction.op, x, {{"dims", dims}}, want.type, {1, n / 3, n / 2, n - 1}), expected);
        }
      }
    }
  }
}

TEST(ReduceTest, ResultsDoNotDependOnTheCutWhereSumsRound) {
  std::mt19937 random(2);
  std::uniform_real_distribution<double> draw(-1, 1);
  for (DType dtype : {F32, F64, BF16}) {
    const Type type{dtype, {9, 37, 21}};
    Numbers values(static_cast<size_t>(type.num_elements()));
    for (double& v : values) v = draw(random);
    const HostTensor x(type, values);
    for (const Ints& dims : Subsets(type.shape)) {
      const Type result = PlainFold(x, dims, 0, [](long double a, long double) { return a; }).type;
      const HostTensor whole = Apply("reduce_sum", x, {{"dims", dims}}, result);
      Ints all;
      for (int64_t i = 1; i < result.num_elements(); i += 5) all.push_back(i);
      EXPECT_EQ(Apply("reduce_sum", x, {{"dims", dims}}, result, all), whole);
    }
  }
}

// ---- bf16.

// Half of the distance between neighbours at x.
double HalfStep(double x) { return std::ldexp(1, std::ilogb(x) - 8); }

TEST(ReduceTest, SumsOfBf16RoundOnceAtTheEnd) {
  // If each step were rounded, a sum of ones would stay at 256.
  for (const Shape& shape : {Shape{1000}, Shape{1000, 1}, Shape{1, 1000}}) {
    const HostTensor x({BF16, shape}, Numbers(1000, 1));
    EXPECT_EQ(
        Apply("reduce_sum", x, {{"dims", shape.size() == 1 ? Ints{0} : Ints{0, 1}}}, {BF16, {}}).Number(),
        1000);
  }
  std::mt19937 random(3);
  std::uniform_real_distribution<double> draw(0, 1);
  Numbers values(3000);
  for (double& v : values) v = draw(random);
  const HostTensor x({BF16, {1000, 3}}, values);
  for (const char* op : {"reduce_sum", "reduce_mean"}) {
    const Folded want = PlainFold(x, {0}, 0, [](long double a, long double b) { return a + b; });
    const Numbers got = Apply(op, x, {{"dims", Ints{0}}}, want.type).Numbers();
    for (size_t i = 0; i < got.size(); ++i) {
      const double exact = want.values[i] / (op == std::string("reduce_mean") ? 1000 : 1);
      EXPECT_NEAR(got[i], exact, HalfStep(exact) * 1.001) << op;
    }
  }
}

TEST(ReduceTest, ProductsOfBf16RoundOnceAtTheEnd) {
  const Numbers factors = {1.0078125, 1.0078125, 1.0078125, 1.0078125};  // each product needs more bits
  EXPECT_EQ(Apply("reduce_prod", HostTensor({BF16, {4}}, factors), {{"dims", Ints{0}}}, {BF16, {}}).Number(),
            HostTensor({BF16, {1}}, {std::pow(1.0078125, 4)}).Numbers()[0]);
}

// ---- Identities, NaN, overflow.

TEST(ReduceTest, NothingReducesToTheIdentity) {
  for (const ReductionCase& reduction : Reductions()) {
    for (DType dtype : kComputeDTypes) {
      if (IsLogical(reduction) != (dtype == BOOL)) continue;
      const double limit = dtype == I32 ? 0x1p31 - 1 : 0x1p63, least = dtype == I32 ? -0x1p31 : -0x1p63;
      const double expected = IsFloat(dtype) || !std::isinf(reduction.start) ? reduction.start
                              : reduction.start > 0                          ? limit
                                                                             : least;
      const Type result{dtype, {2}};
      EXPECT_THAT(Apply(reduction.op, HostTensor({dtype, {2, 0}}), {{"dims", Ints{1}}}, result).Numbers(),
                  ElementsAre(expected, expected))
          << reduction.op << " " << DTypeName(dtype);
      EXPECT_THAT(Apply(reduction.op, HostTensor({dtype, {0, 2}}), {{"dims", Ints{0}}}, result).Numbers(),
                  ElementsAre(expected, expected))
          << reduction.op << " " << DTypeName(dtype);
      EXPECT_THAT(
          Apply(reduction.op, HostTensor({dtype, {2, 0}}), {{"dims", Ints{0}}}, {dtype, {0}}).Numbers(),
          IsEmpty());
    }
  }
  for (DType dtype : {F32, F64, BF16})
    EXPECT_TRUE(std::isnan(
        Apply("reduce_mean", HostTensor({dtype, {0}}), {{"dims", Ints{0}}}, {dtype, {}}).Number()));
}

TEST(ReduceTest, ANaNAnywhereIsTheExtremum) {
  for (DType dtype : {F32, F64, BF16}) {
    for (const char* op : {"reduce_max", "reduce_min"}) {
      for (size_t at = 0; at < 19; ++at) {  // within and behind the lanes of the loop
        Numbers x(19, at % 2 == 0 ? kInf : -kInf);
        x[at] = kNaN;
        EXPECT_TRUE(
            std::isnan(Apply(op, HostTensor({dtype, {19}}, x), {{"dims", Ints{0}}}, {dtype, {}}).Number()));
        Numbers columns;
        for (double v : x) columns.insert(columns.end(), {v, 1});
        const Numbers got =
            Apply(op, HostTensor({dtype, {19, 2}}, columns), {{"dims", Ints{0}}}, {dtype, {2}}).Numbers();
        EXPECT_TRUE(std::isnan(got[0]));
        EXPECT_EQ(got[1], 1);
      }
    }
  }
}

TEST(ReduceTest, ProductsOfWholeNumbersWrapAround) {
  const HostTensor x({I32, {3}}, {65536, 65537, 3});
  EXPECT_EQ(Apply("reduce_prod", x, {{"dims", Ints{0}}}, {I32, {}}).Number(), 3 * 65536);
  const HostTensor y({I32, {2}}, {-0x1p31, -1});
  EXPECT_EQ(Apply("reduce_prod", y, {{"dims", Ints{0}}}, {I32, {}}).Number(), -0x1p31);
}

TEST(ReduceTest, KeepsReducedDimsIfAsked) {
  Graph g{Mesh()};
  const Value x = g.Input("x", BOOL, {2, 3}, {UNSHARDED, UNSHARDED});
  g.Output("all", ReduceAll(x, {1}, /*keep_dims=*/true));
  g.Output("any", ReduceAny(x, {0}, /*keep_dims=*/true));
  const auto outputs = Interpret(g, {{"x", {1, 1, 1, 0, 0, 1}}}).outputs;
  EXPECT_EQ(outputs.at("all"), HostTensor({BOOL, {2, 1}}, {1, 0}));
  EXPECT_EQ(outputs.at("any"), HostTensor({BOOL, {1, 3}}, {1, 1, 1}));
}

// ---- argmin.

TEST(ArgminTest, TiesGoToTheLowestIndexAndTheFirstNaNWins) {
  for (DType dtype : {F32, F64, BF16}) {
    auto argmin = [&](const Numbers& x) {
      return Apply("argmin", HostTensor({dtype, {static_cast<int64_t>(x.size())}}, x), {{"dim", int64_t{0}}},
                   {I32, {}})
          .Number();
    };
    EXPECT_EQ(argmin({3, 1, 2, 1}), 1);
    EXPECT_EQ(argmin({2, 2, 2}), 0);
    EXPECT_EQ(argmin({-5}), 0);
    EXPECT_EQ(argmin({kInf, kInf}), 0);
    EXPECT_EQ(argmin({1, kNaN, -kInf, kNaN}), 1);
    EXPECT_EQ(argmin({kNaN, 1}), 0);
    EXPECT_EQ(argmin({0, -1, kNaN}), 2);
    EXPECT_EQ(argmin({0, -0.0}), 0);
  }
}

TEST(ArgminTest, FollowsLongDimsAsAPlainLoopDoes) {
  std::mt19937 random(8);
  for (const char* op : {"argmin", "argmax"}) {
    const double sign = op == std::string("argmin") ? 1 : -1;
    for (DType dtype : {F32, F64, BF16, I32}) {
      for (const int64_t n : {1, 2, 17, 70, 255, 256, 257, 319, 320, 1000}) {
        for (const int64_t inner : {1, 3, 300}) {
          Numbers values(static_cast<size_t>(n * inner));
          for (double& v : values) v = static_cast<double>(random() % 40) - 20;
          if (IsFloat(dtype) && random() % 2 == 0)
            for (size_t i = 0; i < values.size() / 10; ++i) values[random() % values.size()] = kNaN;
          Numbers expected;
          for (int64_t c = 0; c < inner; ++c) {
            int64_t best = 0;
            for (int64_t k = 1; k < n; ++k) {
              const double x = values[k * inner + c], top = values[best * inner + c];
              if (sign * x < sign * top || (std::isnan(x) && !std::isnan(top))) best = k;
            }
            expected.push_back(static_cast<double>(best));
          }
          const HostTensor x({dtype, {n, inner}}, values);
          ASSERT_EQ(Apply(op, x, {{"dim", int64_t{0}}}, {I32, {inner}}).Numbers(), expected);
        }
      }
    }
  }
}

TEST(ArgminTest, FollowsAnyDim) {
  std::mt19937 random(7);
  for (const char* op : {"argmin", "argmax"}) {
    const double sign = op == std::string("argmin") ? 1 : -1;
    for (DType dtype : {F32, F64, BF16, I32, I64}) {
      Numbers values(60);
      for (double& v : values) v = static_cast<double>(random() % 7) - 3;
      const HostTensor x({dtype, {3, 4, 5}}, values);
      for (int64_t dim = 0; dim < 3; ++dim) {
        const int64_t n = x.type().shape[dim], inner = dim == 0 ? 20 : dim == 1 ? 5 : 1;
        Shape shape = x.type().shape;
        shape.erase(shape.begin() + dim);
        Numbers expected;
        for (int64_t i = 0; i < 60 / n; ++i) {
          const int64_t first = i / inner * inner * n + i % inner;
          int64_t best = 0;
          for (int64_t k = 1; k < n; ++k)
            if (sign * values[first + k * inner] < sign * values[first + best * inner]) best = k;
          expected.push_back(static_cast<double>(best));
        }
        EXPECT_EQ(Apply(op, x, {{"dim", dim}}, {I32, shape}).Numbers(), expected);
        EXPECT_EQ(Apply(op, x, {{"dim", dim}}, {I32, shape}, {2, 7}).Numbers(), expected);
      }
    }
  }
}

}  // namespace
}  // namespace meshwork::reduce_test
