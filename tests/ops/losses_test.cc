// Weights, masks and ignored labels of losses; tests/fixtures compares values and gradients with
// PyTorch's.
#include "meshwork/ops/losses.h"

#include <cmath>
#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/ops/ops.h"
#include "meshwork/ops/row_weights.h"
#include "ops/gradient_check.h"

namespace meshwork::losses_test {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(LossesTest, WeightsOfTheFirstDimsAreThoseOfAllTheirElements) {
  const Numbers p = {1, 2, 3, 4, 5, 6}, zeros(6, 0);
  const auto loss = [&](const Shape& shape, const Numbers& weights, Reduction reduction) {
    Graph g{Mesh()};
    const Value value = MeanSquaredError(In(g, "p", {2, 3}), In(g, "t", {2, 3}),
                                         {.reduction = reduction, .weights = In(g, "w", shape)});
    return ValueOf(value, {{"p", p}, {"t", zeros}, {"w", weights}});
  };
  // Squares 1 4 9 | 16 25 36.
  EXPECT_THAT(loss({2}, {1, 2}, Reduction::kNone), ElementsAre(1, 4, 9, 32, 50, 72));
  EXPECT_THAT(loss({2, 1}, {1, 2}, Reduction::kNone), ElementsAre(1, 4, 9, 32, 50, 72));
  EXPECT_THAT(loss({1, 3}, {1, 0, 2}, Reduction::kNone), ElementsAre(1, 0, 18, 16, 0, 72));
  EXPECT_THAT(loss({}, {2}, Reduction::kNone), ElementsAre(2, 8, 18, 32, 50, 72));
  EXPECT_THAT(loss({2}, {1, 2}, Reduction::kSum), ElementsAre(168));
  EXPECT_THAT(loss({2}, {1, 2}, Reduction::kMean), ElementsAre(28));  // of six elements
  EXPECT_THAT(loss({}, {2}, Reduction::kMean), ElementsAre(DoubleNear(182.0 / 6, 1e-13)));
  EXPECT_THAT(loss({2}, {1, 2}, Reduction::kWeightedMean), ElementsAre(DoubleNear(168.0 / 9, 1e-13)));
  EXPECT_THAT(loss({1, 3}, {1, 0, 2}, Reduction::kWeightedMean), ElementsAre(DoubleNear(107.0 / 6, 1e-13)));
  EXPECT_THAT(loss({2, 3}, {0, 0, 0, 0, 0, 0}, Reduction::kWeightedMean), ElementsAre(0));
}

TEST(LossesTest, AMaskSaysWhichRowsCount) {
  const auto loss = [&](const Shape& shape, const Numbers& mask, Reduction reduction) {
    Graph g{Mesh()};
    const Value value = MeanAbsoluteError(In(g, "p", {2, 3}), In(g, "t", {2, 3}),
                                          {.reduction = reduction, .weights = In(g, "m", shape, BOOL)});
    // Masked elements may be NaN.
    return ValueOf(value, {{"p", {1, 2, 3, 4, 5, kNan}}, {"t", Numbers(6, 0)}, {"m", mask}});
  };
  EXPECT_THAT(loss({2, 3}, {1, 0, 1, 1, 0, 0}, Reduction::kNone), ElementsAre(1, 0, 3, 4, 0, 0));
  EXPECT_THAT(loss({2, 3}, {1, 0, 1, 1, 0, 0}, Reduction::kMean), ElementsAre(DoubleNear(8.0 / 3, 1e-15)));
  EXPECT_THAT(loss({2, 3}, {1, 0, 1, 1, 0, 0}, Reduction::kWeightedMean),
              ElementsAre(DoubleNear(8.0 / 3, 1e-15)));
  EXPECT_THAT(loss({2}, {1, 0}, Reduction::kMean), ElementsAre(2));
  EXPECT_THAT(loss({1, 3}, {1, 1, 0}, Reduction::kMean), ElementsAre(3));
  EXPECT_THAT(loss({2}, {0, 0}, Reduction::kMean), ElementsAre(0));
  EXPECT_THAT(loss({}, {0}, Reduction::kSum), ElementsAre(0));
}

// A step that consists of padding changes nothing.
TEST(LossesTest, IfNoRowCountsTheLossAndItsGradientAreZero) {
  for (const Reduction reduction : {Reduction::kMean, Reduction::kWeightedMean}) {
    Graph g{Mesh()};
    const Value z = In(g, "z", {2, 3}), w = In(g, "w", {2});
    const Value loss = SparseSoftmaxCrossEntropy(
        z, In(g, "y", {2}, I32), {.reduction = reduction, .weights = w, .ignore_label = -100});
    const std::vector<Value> gradients = Gradients(loss, {{z, w}});
    g.Output("loss", loss);
    g.Output("dz", gradients[0]);
    g.Output("dw", gradients[1]);
    const auto outputs =
        Interpret(g, {{"z", {1, 2, 3, 4, 5, 7}}, {"y", {-100, -100}}, {"w", {1, 2}}}).outputs;
    EXPECT_EQ(outputs.at("loss").Number(), 0);
    EXPECT_THAT(outputs.at("dz").Numbers(), ElementsAre(0, 0, 0, 0, 0, 0));
    EXPECT_THAT(outputs.at("dw").Numbers(), ElementsAre(0, 0));
  }
}

TEST(LossesTest, GradientsAreThoseOfDifferences) {
  const auto labels = [](const Xs& x) {
    // 0, 1, 2, 0: row 0 is ignored.
    return Remainder(Iota(*x[0].graph(), {I32, {4}}, 0), 3.0);
  };
  for (const Reduction reduction :
       {Reduction::kMean, Reduction::kWeightedMean, Reduction::kSum, Reduction::kNone}) {
    SCOPED_TRACE(static_cast<int>(reduction));
    ExpectGradientIsRight({{{4, 3}, {4}}, [&](const Xs& x) {
                             const LabelLossOptions options{reduction, Add(Exp(x[1]), 1.0), 0.1, 0};
                             return SparseSoftmaxCrossEntropy(x[0], labels(x), options);
                           }});
    ExpectGradientIsRight({{{4, 3}, {4, 3}, {4}}, [&](const Xs& x) {
                             const ShareLossOptions options{reduction, Add(Exp(x[2]), 1.0), 0.1};
                             return SoftmaxCrossEntropy(x[0], Softmax(x[1]), options);
                           }});
    ExpectGradientIsRight({{{4, 3}, {4, 3}, {1, 3}}, [&](const Xs& x) {
                             const ShareLossOptions options{reduction, Add(Exp(x[2]), 1.0), 0.3};
                             return BinaryCrossEntropyWithLogits(x[0], x[1], options);
                           }});
    ExpectGradientIsRight({{{4, 3}, {4, 3}, {4}}, [&](const Xs& x) {
                             return LogCoshLoss(x[0], x[1], {reduction, Add(Exp(x[2]), 1.0)});
                           }});
    ExpectGradientIsRight({{{4, 3}, {4, 3}, {4}}, [&](const Xs& x) {
                             return CosineDistance(x[0], x[1], {reduction, Add(Exp(x[2]), 1.0)});
                           }});
  }
  ExpectGradientIsRight({{{4, 3}, {4, 3}}, [](const Xs& x) { return PoissonLoss(x[0], x[1]); }});
  ExpectGradientIsRight(
      {{{4, 3}, {4, 3}, {4, 3}}, [](const Xs& x) { return TripletMarginLoss(x[0], x[1], x[2], 9); }});
}

TEST(LossesTest, ClassWeightsAreThoseOfTheLabels) {
  const Numbers labels = {0, 3, 1, 2, 3, -1, 7, 2};
  const std::map<int64_t, double> weights = {{1, 0.1}, {3, 2.5}};
  const Numbers want = {1, 2.5, 0.1, 1, 2.5, 1, 1, 1};
  for (const DType dtype : {I32, I64}) {
    Graph g{Mesh()};
    const Value w = ClassWeights(In(g, "y", {2, 4}, dtype), weights);
    EXPECT_EQ(w.type(), (Type{F64, {2, 4}}));
    EXPECT_EQ(ValueOf(w, {{"y", labels}}), want);
  }
  for (const DType dtype : {F32, F64, BF16}) {
    Graph g{Mesh()};
    const Value w = ClassWeights(In(g, "y", {3, 4}, dtype), weights);
    EXPECT_EQ(ValueOf(w, {{"y", {0, 0, 0, 1, 0.25, 0.5, 0.25, 0, 1, 0, 0, 0}}}), (Numbers{2.5, 0.1, 1}));
  }
  Graph g{Mesh()};
  EXPECT_EQ(ValueOf(ClassWeights(In(g, "y", {3}, I32), {}), {{"y", {0, 1, 2}}}), (Numbers{1, 1, 1}));
}

// Keras: the mean over the rows of w l; PyTorch: over the weights of the rows that count.
TEST(LossesTest, ClassWeightsMultiplyTheLossOfARow) {
  const Numbers z = {0.5, -1, 2, 1, 0.25, -0.5, 3, 1, 0, -2, 0.75, 1.5}, labels = {2, 0, 1, 0};
  const std::map<int64_t, double> weights = {{0, 0.3}, {2, 4}};
  const Numbers of_class = {0.3, 1, 4};
  for (const std::optional<int64_t> ignored : {std::optional<int64_t>(), std::optional<int64_t>(1)}) {
    double sum = 0, weight = 0, count = 0;
    for (size_t i = 0; i < 4; ++i) {
      const auto label = static_cast<size_t>(labels[i]);
      if (ignored.has_value() && labels[i] == static_cast<double>(*ignored)) continue;
      double exps = 0;
      for (size_t c = 0; c < 3; ++c) exps += std::exp(z[i * 3 + c]);
      sum += of_class[label] * (std::log(exps) - z[i * 3 + label]);
      weight += of_class[label];
      ++count;
    }
    const auto loss = [&](Reduction reduction) {
      Graph g{Mesh()};
      const Value y = In(g, "y", {4}, I32);
      return ValueOf(
          SparseSoftmaxCrossEntropy(
              In(g, "z", {4, 3}), y,
              {.reduction = reduction, .weights = ClassWeights(y, weights), .ignore_label = ignored}),
          {{"z", z}, {"y", labels}})[0];
    };
    EXPECT_NEAR(loss(Reduction::kSum), sum, 1e-14);
    EXPECT_NEAR(loss(Reduction::kMean), sum / count, 1e-14);
    EXPECT_NEAR(loss(Reduction::kWeightedMean), sum / weight, 1e-14);
    if (ignored.has_value()) continue;
    Numbers one_hot(12, 0);
    for (size_t i = 0; i < 4; ++i) one_hot[i * 3 + static_cast<size_t>(labels[i])] = 1;
    Graph g{Mesh()};
    const Value y = In(g, "y", {4, 3});
    EXPECT_NEAR(ValueOf(SoftmaxCrossEntropy(In(g, "z", {4, 3}), y, {.weights = ClassWeights(y, weights)}),
                        {{"z", z}, {"y", one_hot}})[0],
                sum / count, 1e-14);
  }
}

TEST(LossesTest, LogCoshOfALargeErrorIsFinite) {
  Graph g{Mesh()};
  const Value loss = LogCoshLoss(In(g, "p", {3}), In(g, "t", {3}), {.reduction = Reduction::kNone});
  EXPECT_THAT(ValueOf(loss, {{"p", {1e4, -1e4, 0}}, {"t", {0, 0, 0}}}),
              ElementsAre(1e4 - std::log(2.0), 1e4 - std::log(2.0), DoubleNear(0, 1e-16)));
}

TEST(LossesTest, TheCosineDistanceOfAVectorOfZerosIsOne) {
  Graph g{Mesh()};
  const Value loss = CosineDistance(In(g, "a", {2, 2}), In(g, "b", {2, 2}), {.reduction = Reduction::kNone});
  EXPECT_THAT(ValueOf(loss, {{"a", {0, 0, 3, 4}}, {"b", {1, 2, -6, -8}}}),
              ElementsAre(1, DoubleNear(2, 1e-15)));
}

TEST(LossesTest, CountsLabelsThatAreNoClass) {
  for (const DType dtype : {I32, I64}) {
    const auto count = [&](std::optional<int64_t> ignored) {
      Graph g{Mesh()};
      const Value value = CountInvalidLabels(In(g, "z", {2, 3, 4}, F32), In(g, "y", {2, 3}, dtype), ignored);
      EXPECT_EQ(value.type(), (Type{I64, {}}));
      return ValueOf(value, {{"z", Numbers(24, kNan)}, {"y", {-1, 0, 3, 4, -100, -1}}});
    };
    EXPECT_THAT(count({}), ElementsAre(4));
    EXPECT_THAT(count(-1), ElementsAre(2));
    EXPECT_THAT(count(2), ElementsAre(4));
  }
}

// A sum of ones in bf16 or f32 stops growing; the number of rows must not.
TEST(LossesTest, RowsThatCountAreCountedInWholeNumbers) {
  Graph g{Mesh()};
  const Value rows = In(g, "x", {300, 3}, BF16), counts = In(g, "m", {300, 1}, BOOL);
  const Value count = Cast(CountOfRows(rows, {.counts = counts}), F64);
  EXPECT_THAT(ValueOf(count, {{"x", Numbers(900, 1)}, {"m", Numbers(300, 1)}}), ElementsAre(900));
}

TEST(LossesTest, DefaultsAddNoNodes) {
  const auto nodes = [](const LabelLossOptions& options) {
    Graph g{Mesh()};
    SparseSoftmaxCrossEntropy(In(g, "z", {4, 3}), In(g, "y", {4}, I32), options);
    EXPECT_EQ(g.nodes().back().row->name, "reduce_mean");
    return g.nodes().size();
  };
  EXPECT_EQ(nodes({}), nodes({.reduction = Reduction::kWeightedMean}));
}

}  // namespace
}  // namespace meshwork::losses_test
