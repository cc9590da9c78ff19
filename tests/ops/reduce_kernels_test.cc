// The kernels of reductions and argmax against plain loops.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/ops/ops.h"
#include "ops/apply.h"
#include "ops/kernel_check.h"
#include "ops/special_numbers.h"
#include "support/interpreter.h"

namespace meshwork::reduce_kernels_test {
namespace {

using ::testing::ElementsAre;

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
      // Reductions along the major dim, where the fold runs element by element.
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

}  // namespace
}  // namespace meshwork::reduce_kernels_test
