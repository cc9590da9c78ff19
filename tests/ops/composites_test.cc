// Softmax, losses and norms: mistakes, and what the fixtures cannot show. Their values and gradients are
// compared with JAX's in tests/fixtures.
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/gradients.h"
#include "ops/ops.h"
#include "support/interpreter.h"

namespace meshwork {
namespace {

using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsNan;
using Numbers = std::vector<double>;
using Feeds = std::map<std::string, Numbers>;

Value In(Graph& g, const std::string& name, const Type& type) {
  return g.Input(name, type.dtype, type.shape, LayoutSpec(type.shape.size(), UNSHARDED));
}

using Xs = std::vector<Value>;

struct Mistake {
  std::vector<Type> types;  // of the inputs
  int (*build)(const Xs& x);
  const char* message;  // @ stands for the line of build
};

void ExpectMessages(const std::vector<Mistake>& mistakes) {
  for (const Mistake& mistake : mistakes) {
    Graph g{Mesh()};
    Xs inputs;
    for (const Type& type : mistake.types) inputs.push_back(In(g, fmt::format("x{}", inputs.size()), type));
    const int line = mistake.build(inputs);
    std::string expected = mistake.message;
    if (const size_t at = expected.find('@'); at != std::string::npos)
      expected.replace(at, 1, fmt::format("composites_test.cc:{}", line));
    EXPECT_EQ(MessageOf(g.status()), expected);
  }
}

// A mistake and its __LINE__ share a line.
// clang-format off
TEST(SoftmaxTest, RefusesDimsThatAreNotThere) {
  ExpectMessages({
      {{{F32, {4, 10}}}, [](const Xs& x) { Softmax(x[0], 2); return __LINE__; },
       "softmax (@): dim=2 is none of f32[4,10]; its dims count from 0 to 1, or backwards from -1 to -2."},
      {{{F32, {4, 10}}}, [](const Xs& x) { LogSoftmax(x[0], -3); return __LINE__; },
       "log_softmax (@): dim=-3 is none of f32[4,10]; its dims count from 0 to 1, or backwards from -1 to -2."},
      {{{F32, {}}}, [](const Xs& x) { Softmax(x[0]); return __LINE__; },
       "softmax (@): takes at least one dim, got f32[]."},
  });
}

TEST(LossesTest, RefuseOperandsThatDoNotFit) {
  ExpectMessages({
      {{{F32, {4, 10}}, {F32, {4}}}, [](const Xs& x) { SoftmaxCrossEntropy(x[0], x[1]); return __LINE__; },
       "softmax_cross_entropy (@): logits are f32[4,10], labels f32[4]; they must be floats of one type."},
      {{{F32, {}}, {F32, {}}}, [](const Xs& x) { SoftmaxCrossEntropy(x[0], x[1]); return __LINE__; },
       "softmax_cross_entropy (@): takes at least one dim, got f32[]."},
      {{{F32, {4}}, {I32, {4}}}, [](const Xs& x) { BinaryCrossEntropyWithLogits(x[0], x[1]); return __LINE__; },
       "binary_cross_entropy_with_logits (@): logits are f32[4], labels i32[4]; they must be floats of one "
       "type."},
      {{{F64, {4, 1}}, {F64, {4}}}, [](const Xs& x) { MeanSquaredError(x[0], x[1]); return __LINE__; },
       "mean_squared_error (@): predictions are f64[4,1], targets f64[4]; they must be floats of one type."},
      {{{I32, {4}}, {I32, {4}}}, [](const Xs& x) { MeanSquaredError(x[0], x[1]); return __LINE__; },
       "mean_squared_error (@): predictions are i32[4], targets i32[4]; they must be floats of one type."},
  });
}

TEST(NormsTest, RefuseOperandsThatDoNotFit) {
  ExpectMessages({
      {{{F32, {4, 6}}, {F32, {4}}, {F32, {4}}}, [](const Xs& x) { LayerNorm(x[0], x[1], x[2]); return __LINE__; },
       "layer_norm (@): x is f32[4,6], scale f32[4], offset f32[4]; x must be floats, scale and offset as x's "
       "last dims."},
      {{{F32, {4, 6}}, {F32, {6}}, {F64, {6}}}, [](const Xs& x) { LayerNorm(x[0], x[1], x[2]); return __LINE__; },
       "layer_norm (@): x is f32[4,6], scale f32[6], offset f64[6]; x must be floats, scale and offset as x's "
       "last dims."},
      {{{F32, {6}}, {F32, {4, 6}}}, [](const Xs& x) { RmsNorm(x[0], x[1]); return __LINE__; },
       "rms_norm (@): x is f32[6], scale f32[4,6]; x must be floats, scale as x's last dims."},
      {{{F32, {4, 6}}, {F32, {6}}}, [](const Xs& x) { RmsNorm(x[0], x[1], -1); return __LINE__; },
       "rms_norm (@): epsilon=-1 is negative."},
      {{{F32, {6}}}, [](const Xs& x) { Standardize(x[0], {0}, HUGE_VAL); return __LINE__; },
       "standardize (@): epsilon=inf is not finite."},
      {{{F32, {6}}}, [](const Xs& x) { Standardize(x[0], {1}, 0); return __LINE__; },
       "reduce_mean (@): dims names dim 1 of f32[6]; its dims count from 0 to 0."},
      {{{F32, {4}}, {I32, {4}}}, [](const Xs& x) { GlobalNorm(x); return __LINE__; },
       "global_norm (@): takes f32, f64 or bf16, got i32[4]."},
      {{{F32, {4}}}, [](const Xs& x) { ClipByGlobalNorm(x, 0); return __LINE__; },
       "clip_by_global_norm (@): clip_norm=0 is not above 0."},
      {{{F32, {4}}}, [](const Xs& x) { ClipByGlobalNorm(x, 1e-50); return __LINE__; },
       "clip_by_global_norm (@): clip_norm=0 is not above 0."},
      {{{F32, {4}}}, [](const Xs& x) { ClipByGlobalNorm(x, NAN); return __LINE__; },
       "clip_by_global_norm (@): clip_norm=nan is not finite."},
  });
}
// clang-format on

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

Numbers ValueOf(const Value& y, const Feeds& feeds) {
  y.graph()->Output("y", y);
  return Interpret(*y.graph(), feeds).outputs.at("y").Numbers();
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
    const std::vector<Value> grads = Gradients(loss, {{z, p}});
    g.Output("dz", grads[0]);
    g.Output("dp", grads[1]);
    const Feeds feeds = {{"z", {1, -HUGE_VAL, 1}}, {"p", {0.25, 0, 0.75}}};
    EXPECT_THAT(ValueOf(loss, feeds), ElementsAre(DoubleNear(std::log(2), 1e-7)));
    auto outputs = Interpret(g, feeds).outputs;
    EXPECT_THAT(outputs.at("dz").Numbers(), ElementsAre(DoubleNear(0.25, 1e-7), 0, DoubleNear(-0.25, 1e-7)));
    for (double x : outputs.at("dp").Numbers()) EXPECT_TRUE(std::isfinite(x)) << x;
  }
}

// sigmoid(0) - y, though both branches of the formula have a corner there.
TEST(LossesTest, BinaryCrossEntropyHasItsGradientAtZero) {
  Graph g{Mesh()};
  const Value z = In(g, "z", {F64, {2}});
  const Value loss = BinaryCrossEntropyWithLogits(z, In(g, "y", {F64, {2}}));
  EXPECT_THAT(ValueOf(Gradients(loss, {{z}})[0], {{"z", {0, -0.0}}, {"y", {1, 0.25}}}),
              ElementsAre(-0.25, 0.125));
}

// log(1 + exp(-30)) would keep three digits of exp(-30), and nothing of exp(-40).
TEST(LossesTest, BinaryCrossEntropyKeepsItsDigitsWhereItIsSmall) {
  for (const double z : {30.0, 40.0}) {
    Graph g{Mesh()};
    const Value loss = BinaryCrossEntropyWithLogits(In(g, "z", {F64, {1}}), In(g, "y", {F64, {1}}));
    EXPECT_NEAR(ValueOf(loss, {{"z", {z}}, {"y", {1}}})[0] / std::exp(-z), 1, 1e-12);
  }
}

TEST(LossesTest, RowsWithoutALabelCountAsZero) {
  Graph g{Mesh()};
  const Value z = In(g, "z", {F64, {3, 2}});
  const Value loss = SparseSoftmaxCrossEntropy(z, In(g, "labels", {I32, {3}}));
  g.Output("dz", Gradients(loss, {{z}})[0]);
  const Feeds feeds = {{"z", {1, 1, 2, 2, 3, 3}}, {"labels", {-1, 0, 2}}};
  EXPECT_THAT(ValueOf(loss, feeds), ElementsAre(DoubleNear(std::log(2) / 3, 1e-15)));
  EXPECT_THAT(Interpret(g, feeds).outputs.at("dz").Numbers(),
              ElementsAre(0, 0, DoubleNear(-1.0 / 6, 1e-15), DoubleNear(1.0 / 6, 1e-15), 0, 0));
}

// A second gradient sees that the mean moves with x: of sum(standardize(x)³) by finite differences of the
// first gradient.
TEST(NormsTest, StandardizeHasASecondGradient) {
  Graph g{Mesh()};
  const Value x = In(g, "x", {F64, {4}});
  const Value y = Standardize(x, {0}, 0.25);
  const Value first = Gradients(ReduceSum(y * y * y, {0}), {{x}})[0];
  const Value weights = Iota(g, {F64, {4}}, 0) + 1.0;
  const Value slope = ReduceSum(first * weights, {0});
  const Value second = Gradients(slope, {{x}})[0];
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
}  // namespace meshwork
