// Softmax, losses and norms: mistakes, and cases that the fixtures do not cover. Their values and gradients
// are compared with JAX's in tests/fixtures.
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/gradients.h"
#include "meshwork/ops/ops.h"
#include "ops/gradient_check.h"
#include "support/interpreter.h"

namespace meshwork::composites_test {
namespace {

using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsNan;
TEST(CompositesTest, PassInvalidValuesOn) {
  Graph g{Mesh()};
  const Value x = In(g, "x", {F32, {4}}), bad = MatMul(x, x);
  const size_t nodes = g.nodes().size();
  EXPECT_FALSE(Softmax(bad).valid());
  EXPECT_FALSE(SoftmaxCrossEntropy(x, bad).valid());
  EXPECT_FALSE(BinaryCrossEntropyWithLogits(bad, x).valid());
  EXPECT_FALSE(MeanSquaredError(x, bad).valid());
  EXPECT_FALSE(Standardize(bad, {0}, 0).valid());
  EXPECT_FALSE(LayerNorm(x, bad, x).valid());
  EXPECT_FALSE(RmsNorm(x, bad).valid());
  EXPECT_FALSE(GlobalNorm({{x, bad}}).valid());
  EXPECT_FALSE(GlobalNorm({}).valid());
  const std::vector<Value> clipped = ClipByGlobalNorm({{bad, x}}, 1);
  ASSERT_EQ(clipped.size(), 2u);
  EXPECT_FALSE(clipped[0].valid());
  EXPECT_FALSE(clipped[1].valid());
  EXPECT_TRUE(ClipByGlobalNorm({}, 1).empty());
  EXPECT_EQ(g.nodes().size(), nodes);
}

TEST(SoftmaxTest, OfNothingButMaskedElementsIsNan) {
  Graph g{Mesh()};
  EXPECT_THAT(ValueOf(Softmax(In(g, "x", {F64, {2}})), {{"x", {-HUGE_VAL, -HUGE_VAL}}}), Each(IsNan()));
}

// The class of -inf neither adds to the loss nor makes a gradient NaN.
TEST(LossesTest, DenseLabelsLeaveMaskedClassesOut) {
  for (DType dtype : {F32, F64}) {
    Graph g{Mesh()};
    const Value z = In(g, "z", {dtype, {1, 3}}), p = In(g, "p", {dtype, {1, 3}});
    const Value loss = SoftmaxCrossEntropy(z, p);
    const std::vector<Value> grads = Gradients(loss, {z, p});
    g.Output("dz", grads[0]);
    g.Output("dp", grads[1]);
    const FedNumbers feeds = {{"z", {1, -HUGE_VAL, 1}}, {"p", {0.25, 0, 0.75}}};
    EXPECT_THAT(ValueOf(loss, feeds), ElementsAre(DoubleNear(std::log(2), 1e-7)));
    auto outputs = Interpret(g, feeds).outputs;
    EXPECT_THAT(outputs.at("dz").Numbers(), ElementsAre(DoubleNear(0.25, 1e-7), 0, DoubleNear(-0.25, 1e-7)));
    for (double x : outputs.at("dp").Numbers()) EXPECT_TRUE(std::isfinite(x)) << x;
  }
}

// The gradient is sigmoid(0) - y, though both branches of the formula have a corner there.
TEST(LossesTest, BinaryCrossEntropyHasItsGradientAtZero) {
  Graph g{Mesh()};
  const Value z = In(g, "z", {F64, {2}});
  const Value loss = BinaryCrossEntropyWithLogits(z, In(g, "y", {F64, {2}}));
  EXPECT_THAT(ValueOf(Gradients(loss, {z})[0], {{"z", {0, -0.0}}, {"y", {1, 0.25}}}),
              ElementsAre(-0.25, 0.125));
}

// log(1 + exp(-30)), computed as written, keeps three digits of exp(-30), and none of exp(-40).
TEST(LossesTest, BinaryCrossEntropyKeepsItsDigitsWhereItIsSmall) {
  for (const double z : {30.0, 40.0}) {
    Graph g{Mesh()};
    const Value loss = BinaryCrossEntropyWithLogits(In(g, "z", {F64, {1}}), In(g, "y", {F64, {1}}));
    EXPECT_NEAR(ValueOf(loss, {{"z", {z}}, {"y", {1}}})[0] / std::exp(-z), 1, 1e-12);
  }
}

// A row whose label is no class gets a loss of NaN, so that the mistake is seen; its gradient is 0.
TEST(LossesTest, RowsWithoutALabelHaveNoLossAndNoGradient) {
  Graph g{Mesh()};
  const Value z = In(g, "z", {F64, {3, 2}});
  const Value loss = SparseSoftmaxCrossEntropy(z, In(g, "labels", {I32, {3}}));
  g.Output("dz", Gradients(loss, {z})[0]);
  const FedNumbers feeds = {{"z", {1, 1, 2, 2, 3, 3}}, {"labels", {-1, 0, 2}}};
  EXPECT_THAT(ValueOf(loss, feeds), ElementsAre(IsNan()));
  EXPECT_THAT(Interpret(g, feeds).outputs.at("dz").Numbers(),
              ElementsAre(0, 0, DoubleNear(-1.0 / 6, 1e-15), DoubleNear(1.0 / 6, 1e-15), 0, 0));
}

// The second gradient accounts for the mean's dependence on x: for sum(standardize(x)³), against finite
// differences of the first gradient.
TEST(NormsTest, StandardizeHasASecondGradient) {
  Graph g{Mesh()};
  const Value x = In(g, "x", {F64, {4}});
  const Value y = Standardize(x, {0}, 0.25);
  const Value first = Gradients(ReduceSum(y * y * y, {0}), {x})[0];
  const Value weights = Iota(g, {F64, {4}}, 0) + 1.0;
  const Value slope = ReduceSum(first * weights, {0});
  const Value second = Gradients(slope, {x})[0];
  const Numbers at = {0.5, -1, 2, 0.25};
  const Numbers got = InterpretAll(g, {{"x", at}})[second.id()].Numbers();
  for (size_t i = 0; i < at.size(); ++i) {
    constexpr double kStep = 1e-5;
    Numbers above = at, below = at;
    above[i] += kStep;
    below[i] -= kStep;
    auto slope_at = [&](const Numbers& numbers) {
      return InterpretAll(g, {{"x", numbers}})[slope.id()].Number();
    };
    EXPECT_NEAR(got[i], (slope_at(above) - slope_at(below)) / (2 * kStep), 1e-8);
  }
}

TEST(NormsTest, ClippingMakesAllNanWhereOneIsNotFinite) {
  for (const double bad : {HUGE_VAL, -HUGE_VAL, std::nan(""), 1e200}) {  // the square of 1e200 overflows
    SCOPED_TRACE(bad);
    Graph g{Mesh()};
    const std::vector<Value> clipped = ClipByGlobalNorm({{In(g, "a", {F64, {2}}), In(g, "b", {F64, {}})}}, 1);
    g.Output("a", clipped[0]);
    g.Output("b", clipped[1]);
    const auto outputs = Interpret(g, {{"a", {0, 3}}, {"b", {bad}}}).outputs;
    EXPECT_THAT(outputs.at("a").Numbers(), Each(IsNan()));
    EXPECT_THAT(outputs.at("b").Numbers(), Each(IsNan()));
  }
}

TEST(NormsTest, GlobalNormOfMixedDtypesIsTheWidest) {
  Graph g{Mesh()};
  const Value a = In(g, "a", {F32, {2}}), b = In(g, "b", {F64, {}});
  EXPECT_EQ(GlobalNorm({{a}}).type(), (Type{F32, {}}));
  EXPECT_EQ(GlobalNorm({{a, b}}).type(), (Type{F64, {}}));
  EXPECT_EQ(GlobalNorm({{In(g, "c", {BF16, {2}})}}).type(), (Type{F32, {}}));
  const std::vector<Value> clipped = ClipByGlobalNorm({{a, b}}, 1);
  EXPECT_EQ(clipped[0].type(), a.type());
  EXPECT_EQ(clipped[1].type(), b.type());
}

}  // namespace
}  // namespace meshwork::composites_test
