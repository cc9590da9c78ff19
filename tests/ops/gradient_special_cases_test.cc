// Gradients that finite differences cannot check: at ties, corners and zeros, through casts, of values on
// which the loss does not depend; and the layouts and source lines that the nodes of a gradient get.
#include <map>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/ir/gradients.h"
#include "meshwork/ops/ops.h"
#include "ops/gradient_check.h"
#include "support/interpreter.h"

namespace meshwork::gradient_special_cases_test {
namespace {

using ::testing::ElementsAre;

TEST(GradientTest, ElementsEqualToTheMaximumShareIt) {
  const Numbers x = {1, 3, 3, 0, /**/ 2, 2, 2, 2};
  EXPECT_THAT(GradientOfSum({F64, {2, 4}}, x, [](const Value& v) { return ReduceMax(v, {1}); }),
              ElementsAre(0, 0.5, 0.5, 0, 0.25, 0.25, 0.25, 0.25));
  EXPECT_THAT(GradientOfSum({F64, {2, 4}}, x,
                            [](const Value& v) {
                              return ReduceMax(v, {0, 1}, true);
                            }),
              ElementsAre(0, 0.5, 0.5, 0, 0, 0, 0, 0));
}

TEST(GradientTest, ElementsEqualToTheMinimumShareIt) {
  EXPECT_THAT(GradientOfSum({F64, {2, 4}}, {1, 3, 3, 1, /**/ 2, 2, 2, 2},
                            [](const Value& v) { return ReduceMin(v, {1}); }),
              ElementsAre(0.5, 0, 0, 0.5, 0.25, 0.25, 0.25, 0.25));
}

TEST(GradientTest, OfAProductIsTheProductOfTheOthersAlsoAmongZeros) {
  for (const DType dtype : {F32, F64, BF16}) {
    // No zero, one, two, and negative zero.
    EXPECT_THAT(GradientOfSum({dtype, {4, 3}}, {2, -3, 4, /**/ 2, 0, 4, /**/ 0, 5, 0, /**/ -0.0, 2, 8},
                              [](const Value& v) { return ReduceProd(v, {1}); }),
                ElementsAre(-12, 8, -6, /**/ 0, 8, 0, /**/ 0, 0, 0, /**/ 16, 0, 0));
  }
  EXPECT_THAT(GradientOfSum({F64, {1}}, {0}, [](const Value& v) { return ReduceProd(v, {0}); }),
              ElementsAre(1));
}

TEST(GradientTest, TheFirstOfTwoEqualOperandsTakesIt) {
  for (const bool maximum : {true, false}) {
    Graph g{Mesh()};
    const Value a = In(g, "a", {3}), b = In(g, "b", {3});
    const std::vector<Value> grads =
        Gradients(ReduceSum(maximum ? Maximum(a, b) : Minimum(a, b), {0}), {a, b});
    g.Output("a", grads[0]);
    g.Output("b", grads[1]);
    const auto outputs = Interpret(g, {{"a", {1, 2, 3}}, {"b", {3, 2, 1}}}).outputs;
    EXPECT_THAT(outputs.at("a").Numbers(), ElementsAre(!maximum, 1, maximum));
    EXPECT_THAT(outputs.at("b").Numbers(), ElementsAre(maximum, 0, !maximum));
  }
}

TEST(GradientTest, OfReluIsZeroAtZero) {
  EXPECT_THAT(GradientOfSum({F64, {3}}, {-1, 0, 2}, [](const Value& v) { return Relu(v); }),
              ElementsAre(0, 0, 1));
}

TEST(GradientTest, OfBitsAsTheyAreIsThatOfTheNumber) {
  EXPECT_THAT(GradientOfSum({F64, {2}}, {3, 4}, [](const Value& v) { return Bitcast(v, F64) * v; }),
              ElementsAre(6, 8));
  EXPECT_THAT(
      GradientOfSum({F64, {2}}, {3, 4}, [](const Value& v) { return Bitcast(Bitcast(v, I64), F64) + v; }),
      ElementsAre(1, 1));
}

TEST(GradientTest, StopsAtStopGradientAndWholeNumbers) {
  EXPECT_THAT(GradientOfSum({F64, {2}}, {3, 4}, [](const Value& v) { return v * StopGradient(v); }),
              ElementsAre(3, 4));
  EXPECT_THAT(GradientOfSum({F64, {2}}, {3, 4}, [](const Value& v) { return Cast(Cast(v, I32), F64) + v; }),
              ElementsAre(1, 1));
  EXPECT_THAT(GradientOfSum({F64, {2}}, {3, 4}, [](const Value& v) { return Cast(Less(v, 3.5), F64); }),
              ElementsAre(0, 0));
  EXPECT_THAT(GradientOfSum({F64, {2}}, {3, 4}, [](const Value& v) { return Cast(Argmax(v, 0), F64); }),
              ElementsAre(0, 0));
}

TEST(GradientTest, PassesThroughCastsInTheDtypeOfEach) {
  Graph g{Mesh()};
  const Value x = In(g, "x", {2}, F32);
  const Value grad = Gradients(ReduceSum(Cast(x, F64) * 0.1, {0}), {x})[0];
  EXPECT_EQ(grad.type(), (Type{F32, {2}}));
  g.Output("grad", grad);
  EXPECT_THAT(Interpret(g, {{"x", {1, 2}}}).outputs.at("grad").Numbers(), ElementsAre(0.1f, 0.1f));
}

TEST(GradientTest, OfWhatTheLossDoesNotDependOnIsZero) {
  Graph g{Mesh()};
  const Value x = In(g, "x", {2}), unused = In(g, "unused", {3}, F32), loss = ReduceSum(x, {0});
  const Value later = Exp(x);
  const std::vector<Value> grads = Gradients(loss, {unused, x, loss, later});
  for (size_t i = 0; i < grads.size(); ++i) g.Output("grad" + std::to_string(i), grads[i]);
  const auto outputs = Interpret(g, {{"x", {1, 2}}, {"unused", {1, 2, 3}}}).outputs;
  EXPECT_EQ(outputs.at("grad0"), HostTensor({F32, {3}}, {0, 0, 0}));
  EXPECT_EQ(outputs.at("grad1"), HostTensor({F64, {2}}, {1, 1}));
  EXPECT_EQ(outputs.at("grad2"), HostTensor({F64, {}}, {1}));
  EXPECT_EQ(outputs.at("grad3"), HostTensor({F64, {2}}, {0, 0}));
}

TEST(GradientTest, OfAValueInTheMiddleStopsThere) {
  Graph g{Mesh()};
  const Value x = In(g, "x", {2}), h = x * x;
  g.Output("grad", Gradients(ReduceSum(h * h, {0}), {h})[0]);
  EXPECT_THAT(Interpret(g, {{"x", {1, 3}}}).outputs.at("grad").Numbers(), ElementsAre(2, 18));
}

TEST(GradientTest, MayBeGatheredWhereTheForwardOpMayGather) {
  Graph g(Mesh::Parse("x=2").value());
  const Value x = g.Input("x", F64, {4, 6}, {"x", UNSHARDED});
  const Value a = AllowGather(Tanh(x)), b = Reverse(a, {0});
  const Value c = Exp(b);
  const std::vector<Value> grads = Gradients(ReduceSum(c, {0, 1}), {x, a, b, c});
  std::vector<Gathering> found;
  for (const Value& grad : grads) found.push_back(g.value(grad.id()).gather);
  EXPECT_THAT(found, ElementsAre(Gathering::kAllowed, Gathering::kAllowed, Gathering::kAllowed,
                                 Gathering::kWithinBudget));
}

TEST(GradientTest, NodesStandWhereTheForwardOpStands) {
  Graph g{Mesh()};
  const Value x = In(g, "x", {2, 2});
  const Value h = MatMul(x, x);
  const int product = __LINE__ - 1;
  const Value loss = ReduceSum(Exp(h), {0, 1});
  const int rest = __LINE__ - 1;
  const size_t forward = g.nodes().size();
  Gradients(loss, {x});
  const int call = __LINE__ - 1;
  std::map<std::string, std::set<int>> lines;
  for (size_t i = forward; i < g.nodes().size(); ++i)
    lines[std::string(g.nodes()[i].row->name)].insert(g.nodes()[i].location.line);
  const std::map<std::string, std::set<int>> expected = {{"constant", {call}},
                                                         {"broadcast_to", {rest}},
                                                         {"mul", {rest}},
                                                         {"matmul", {product}},
                                                         {"add", {product}}};
  EXPECT_EQ(lines, expected);
}

}  // namespace
}  // namespace meshwork::gradient_special_cases_test
