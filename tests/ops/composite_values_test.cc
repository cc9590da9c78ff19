// Values of attention, log_softmax, cross-entropy and accuracy against numbers computed another way.
#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/ops/ops.h"
#include "ops/gradient_check.h"
#include "support/interpreter.h"

namespace meshwork::composite_values_test {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Pointwise;

TEST(CompositesTest, AttentionWithAMaskSeesWhatItIsToldTo) {
  Numbers numbers;
  for (int i = 0; i < 12; ++i) numbers.push_back(std::sin(i));
  const auto attend = [&](bool masked) {
    Graph g{Mesh()};
    const Value q = In(g, "q", {2, 3, 1, 2});
    const Value seen = Iota(g, {I32, {2, 3}}, 1) + 1.0;
    const Value all = Constant(g, 1, {BOOL, {1, 1, 1, 1}});
    return ValueOf(Attention(q, q, q, {.mask = masked ? all : Value(), .seen = seen}), {{"q", numbers}});
  };
  EXPECT_THAT(attend(true), Pointwise(DoubleNear(1e-12), attend(false)));
}

// x - log(sum(exp(x))) of each row, in extended precision without a shift.
Numbers PlainLogSoftmax(const Numbers& x, size_t columns) {
  Numbers y;
  for (size_t i = 0; i < x.size(); ++i) {
    long double sum = 0;
    for (size_t j = 0; j < columns; ++j)
      sum += std::exp(static_cast<long double>(x[i / columns * columns + j]));
    y.push_back(static_cast<double>(x[i] - std::log(sum)));
  }
  return y;
}

TEST(CompositeTest, LogSoftmaxIsTheLogarithmOfTheShares) {
  const Numbers x = {0.5, -1, 2, 3, 3, 3, -7, 0, 11, 0.25, 0.125, -0.5};
  Graph g{Mesh()};
  EXPECT_THAT(ValueOf(LogSoftmax(In(g, "x", {2, 2, 3})), {{"x", x}}),
              Pointwise(DoubleNear(1e-14), PlainLogSoftmax(x, 3)));
}

TEST(CompositeTest, LogSoftmaxOfLargeLogitsIsFinite) {
  Graph g{Mesh()};
  EXPECT_THAT(ValueOf(LogSoftmax(In(g, "x", {3}, F32)), {{"x", {1000, 999, -1000}}}),
              Pointwise(DoubleNear(1e-4), Numbers{-0.313262, -1.313262, -2000.313262}));
}

TEST(CompositeTest, CrossEntropyIsTheMeanSurprise) {
  Graph g{Mesh()};
  const Value loss = SparseSoftmaxCrossEntropy(In(g, "x", {2, 3}), In(g, "labels", {2}, I64));
  // -log(e^3 / (e + e^2 + e^3)) and log(3).
  EXPECT_THAT(ValueOf(loss, {{"x", {1, 2, 3, 1, 1, 1}}, {"labels", {2, 0}}}),
              ElementsAre(DoubleNear((0.40760596444438 + 1.09861228866811) / 2, 1e-13)));
}

TEST(CompositeTest, AccuracyIsTheShareOfRowsThatAreRight) {
  for (DType labels : {I32, I64}) {
    Graph g{Mesh()};
    const Value accuracy = Accuracy(In(g, "x", {4, 3}, F32), In(g, "labels", {4}, labels), F64);
    EXPECT_EQ(accuracy.type(), (Type{F64, {}}));
    const Numbers x = {0,       1,  2,  /**/ 5, 5, 1,
                       /**/ -1, -2, -3, /**/ 0, 9, 0};  // argmax 2 0 0 1: ties to the lowest
    EXPECT_THAT(ValueOf(accuracy, {{"x", x}, {"labels", {2, 0, 1, 1}}}), ElementsAre(0.75));
  }
}

}  // namespace
}  // namespace meshwork::composite_values_test
