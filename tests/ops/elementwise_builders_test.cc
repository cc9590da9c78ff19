// The elementwise builder functions and operators add the rows that they name.
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/ops/ops.h"
#include "support/interpreter.h"

namespace meshwork::elementwise_builders_test {
namespace {

using ::testing::ElementsAre;

TEST(ElementwiseTest, OperatorsAreTheFunctionsTheyLookLike) {
  Graph g{Mesh()};
  const Value a = g.Input("a", I32, {1}, {UNSHARDED}), b = g.Input("b", I32, {1}, {UNSHARDED});
  const Value all[] = {a % b,
                       a & b,
                       a | b,
                       a ^ b,
                       ~a,
                       ShiftLeft(a, b),
                       ShiftRightArithmetic(-a, b),
                       ShiftRightLogical(-a, b),
                       Pow(a, b)};
  for (size_t i = 0; i < std::size(all); ++i) g.Output("y" + std::to_string(i), all[i]);
  const auto outputs = Interpret(g, {{"a", {13}}, {"b", {3}}}).outputs;
  std::vector<double> numbers;
  for (size_t i = 0; i < std::size(all); ++i)
    numbers.push_back(outputs.at("y" + std::to_string(i)).Numbers()[0]);
  EXPECT_THAT(numbers, ElementsAre(1, 1, 15, 14, -14, 104, -2, 536870910, 2197));
}

TEST(ElementwiseTest, FunctionsOfOneOperandAddTheRowOfTheirName) {
  const std::map<std::string, Value (*)(const Operand&)> functions = {{"neg", Neg},
                                                                      {"abs", Abs},
                                                                      {"sign", Sign},
                                                                      {"square", Square},
                                                                      {"reciprocal", Reciprocal},
                                                                      {"is_finite", IsFinite},
                                                                      {"is_inf", IsInf},
                                                                      {"is_nan", meshwork::IsNan},
                                                                      {"exp", Exp},
                                                                      {"expm1", Expm1},
                                                                      {"log", Log},
                                                                      {"log1p", Log1p},
                                                                      {"sqrt", Sqrt},
                                                                      {"rsqrt", Rsqrt},
                                                                      {"cbrt", Cbrt},
                                                                      {"erf", Erf},
                                                                      {"erfc", Erfc},
                                                                      {"sin", Sin},
                                                                      {"cos", Cos},
                                                                      {"tan", Tan},
                                                                      {"asin", Asin},
                                                                      {"acos", Acos},
                                                                      {"atan", Atan},
                                                                      {"sinh", Sinh},
                                                                      {"cosh", Cosh},
                                                                      {"tanh", Tanh},
                                                                      {"asinh", Asinh},
                                                                      {"acosh", Acosh},
                                                                      {"atanh", Atanh},
                                                                      {"floor", Floor},
                                                                      {"ceil", Ceil},
                                                                      {"round", Round},
                                                                      {"trunc", Trunc},
                                                                      {"relu", Relu},
                                                                      {"relu6", Relu6},
                                                                      {"selu", Selu},
                                                                      {"mish", Mish},
                                                                      {"hard_silu", HardSilu},
                                                                      {"silu", Silu}};
  for (const auto& [name, f] : functions) {
    Graph g{Mesh()};
    f(g.Input("x", F32, {2}, {UNSHARDED}));
    ASSERT_TRUE(g.status().ok()) << g.status();
    EXPECT_EQ(g.nodes().back().row->name, name);
  }
}

}  // namespace
}  // namespace meshwork::elementwise_builders_test
