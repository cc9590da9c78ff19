// Gradients of the elementwise families that finite differences of samples do not cover: second gradients,
// ties and corners, and points where the function is flat.
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/ops/families.h"
#include "meshwork/ops/ops.h"
#include "ops/gradient_check.h"

namespace meshwork::elementwise_gradient_test {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

TEST(ElementwiseGradientTest, OfAGradientAgreesWithFiniteDifferences) {
  int functions = 0;
  for (const auto& family : {ArithmeticOps(), CompareOps(), UnaryOps(), ActivationOps()}) {
    for (const OpRow& row : family) {
      if (row.grad == nullptr) continue;
      for (const std::string_view text : row.samples) {
        if (text.find("f64") == std::string_view::npos) continue;  // all become f64
        SCOPED_TRACE(fmt::format("{} {}", row.name, text));
        ExpectGradientIsRight(GradientOf(FunctionOfSample(row, text).value()));
        ++functions;
      }
    }
  }
  EXPECT_GT(functions, 40);
}

using Unary = std::function<Value(const Value&)>;

Numbers SlopesAt(const Unary& f, const Numbers& x, DType dtype = F64) {
  return GradientOfSum({dtype, {static_cast<int64_t>(x.size())}}, x, f);
}

TEST(ElementwiseGradientTest, AtCornersIsWhatTheDocumentationSays) {
  EXPECT_THAT(SlopesAt([](const Value& x) { return Relu6(x); }, {-1, 0, 1, 6, 7}),
              ElementsAre(0, 0, 1, 0, 0));
  EXPECT_THAT(SlopesAt([](const Value& x) { return LeakyRelu(x, 0.25); }, {-1, 0, 1}),
              ElementsAre(0.25, 0.25, 1));
  EXPECT_THAT(SlopesAt([](const Value& x) { return Elu(x, 0.25); }, {0, 1}), ElementsAre(0.25, 1));
  EXPECT_THAT(SlopesAt([](const Value& x) { return Abs(x); }, {-2, 0, 3}), ElementsAre(-1, 0, 1));
  EXPECT_THAT(SlopesAt([](const Value& x) { return HardSigmoid(x) * 6.0; }, {-4, -3, 0, 3, 4}),
              ElementsAre(0, 0, 1, 0, 0));
  EXPECT_THAT(SlopesAt([](const Value& x) { return HardSilu(x); }, {-4, -3, 0, 3, 4}),
              ElementsAre(0, -0.5, 0.5, 1.5, 1));
}

TEST(ElementwiseGradientTest, OfClipIsThatOfMinimumOfMaximum) {
  const Numbers x = {-2, -1, 0, 1, 2};
  const Numbers slopes = SlopesAt([](const Value& v) { return Clip(v, -1, 1); }, x);
  EXPECT_THAT(slopes, ElementsAre(0, 1, 1, 1, 0));
  EXPECT_EQ(SlopesAt([](const Value& v) { return Minimum(Maximum(v, -1.0), 1.0); }, x), slopes);
}

TEST(ElementwiseGradientTest, OfRoundingAndSignIsZero) {
  for (Value (*f)(const Operand&) : {Floor, Ceil, Trunc, Sign}) {
    EXPECT_THAT(SlopesAt([f](const Value& x) { return f(x) + x; }, {-1.5, 0, 2.25}), ElementsAre(1, 1, 1));
  }
}

// d a^b / da and d a^b / db where a factor of the formula is 0 · ∞ or log(0).
TEST(ElementwiseGradientTest, OfPowIsDefinedWhereTheFormulaIsNot) {
  Graph g{Mesh()};
  const Value a = In(g, "a", {6}), b = In(g, "b", {6});
  const std::vector<Value> grads = Gradients(ReduceSum(Pow(a, b), {0}), {a, b});
  g.Output("a", grads[0]);
  g.Output("b", grads[1]);
  const auto outputs = Interpret(g, {{"a", {0, 0, 0, -2, 3, kInf}}, {"b", {0, 1, 2, 3, 0, 0}}}).outputs;
  EXPECT_THAT(outputs.at("a").Numbers(), ElementsAre(0, 1, 0, 12, 0, 0));
  EXPECT_THAT(outputs.at("b").Numbers(), ElementsAre(0, 0, 0, 0, std::log(3.0), kInf));
}

TEST(ElementwiseGradientTest, OfAtan2NeitherOverflowsNorVanishes) {
  for (const double scale : {1.0, 1e30, 1e-30}) {
    Graph g{Mesh()};
    const Value y = In(g, "y", {4}, F32), x = In(g, "x", {4}, F32);
    const std::vector<Value> grads = Gradients(ReduceSum(Atan2(y, x), {0}), {y, x});
    g.Output("y", grads[0]);
    g.Output("x", grads[1]);
    const auto outputs =
        Interpret(g, {{"y", {scale, 0, -scale, scale}}, {"x", {scale, scale, 0, -scale}}}).outputs;
    const float h = static_cast<float>(0.5 / scale), w = static_cast<float>(1 / scale);
    auto near = [](float v) { return ::testing::DoubleNear(v, 1e-6 * std::abs(v)); };
    EXPECT_THAT(outputs.at("y").Numbers(), ElementsAre(near(h), near(w), near(0), near(-h)));
    EXPECT_THAT(outputs.at("x").Numbers(), ElementsAre(near(-h), near(0), near(w), near(-h)));
  }
}

struct Flat {
  const char* name;
  Unary f;
  double left, right;  // slopes far to the left and to the right
};

const std::vector<Flat>& Flats() {
  static const auto* all = new std::vector<Flat>{
      {"relu", [](const Value& x) { return Relu(x); }, 0, 1},
      {"relu6", [](const Value& x) { return Relu6(x); }, 0, 0},
      {"leaky_relu", [](const Value& x) { return LeakyRelu(x, 0.25); }, 0.25, 1},
      {"elu", [](const Value& x) { return Elu(x); }, 0, 1},
      {"selu", [](const Value& x) { return Selu(x) / 1.0507009873554804934; }, 0, 1},
      {"sigmoid", [](const Value& x) { return Sigmoid(x); }, 0, 0},
      {"softplus", [](const Value& x) { return Softplus(x); }, 0, 1},
      {"silu", [](const Value& x) { return Silu(x); }, 0, 1},
      {"gelu", [](const Value& x) { return Gelu(x); }, 0, 1},
      {"gelu by tanh", [](const Value& x) { return Gelu(x, GeluForm::kTanh); }, 0, 1},
      {"mish", [](const Value& x) { return Mish(x); }, 0, 1},
      {"hard_sigmoid", [](const Value& x) { return HardSigmoid(x); }, 0, 0},
      {"hard_silu", [](const Value& x) { return HardSilu(x); }, 0, 1},
      {"clip", [](const Value& x) { return Clip(x, -1, 1); }, 0, 0},
      {"tanh", [](const Value& x) { return Tanh(x); }, 0, 0},
      {"erf", [](const Value& x) { return Erf(x); }, 0, 0},
      {"erfc", [](const Value& x) { return Erfc(x); }, 0, 0},
      {"atan", [](const Value& x) { return Atan(x); }, 0, 0},
      {"asinh", [](const Value& x) { return Asinh(x); }, 0, 0},
  };
  return *all;
}

TEST(ElementwiseGradientTest, HasItsLimitsFarFromZero) {
  for (const Flat& flat : Flats()) {
    SCOPED_TRACE(flat.name);
    for (const DType dtype : {F32, F64}) {
      const Numbers x = {-kInf, -1e38, -1e20, 1e20, 1e38, kInf};
      const Numbers slopes = SlopesAt(flat.f, x, dtype);
      for (size_t i = 0; i < x.size(); ++i)
        EXPECT_NEAR(slopes[i], x[i] < 0 ? flat.left : flat.right, 1e-6) << "at " << x[i];
    }
  }
}

TEST(ElementwiseGradientTest, OfNaNIsNaNWhereTheSlopeDependsOnIt) {
  for (const Unary& f :
       {Unary([](const Value& x) { return Sigmoid(x); }), Unary([](const Value& x) { return Gelu(x); }),
        Unary([](const Value& x) { return Silu(x); }), Unary([](const Value& x) { return Exp(x); })})
    EXPECT_TRUE(std::isnan(SlopesAt(f, {kNaN})[0]));
}

}  // namespace
}  // namespace meshwork::elementwise_gradient_test
