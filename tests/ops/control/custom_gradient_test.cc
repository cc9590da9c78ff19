// Custom gradients: their numbers in programs of every form, against the gradient that the function's ops
// give, and cases where they differ from it on purpose.
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/ir/gradients.h"
#include "meshwork/ir/text.h"
#include "meshwork/ops/control/control_flow.h"
#include "meshwork/ops/ops.h"
#include "meshwork/spmd/compile.h"
#include "ops/gradient_check.h"
#include "support/interpreter.h"

namespace meshwork::custom_gradient_test {
namespace {

using ::testing::ElementsAre;
using Values = std::vector<Value>;

Value Softplus(const Value& x) {
  const Value e = Exp(x);
  return CustomGradient(Log(1.0 + e), {x},
                        [&](const Value& dy) { return Values{dy * (1.0 - 1.0 / (1.0 + e))}; });
}

// x w, with both gradients written by hand.
Value Product(const Value& x, const Value& w) {
  return CustomGradient(MatMul(x, w), {x, w}, [&](const Value& dy) {
    return Values{MatMul(dy, Transpose(w, {1, 0})), MatMul(Transpose(x, {1, 0}), dy)};
  });
}

TEST(CustomGradientTest, AgreesWithFiniteDifferencesWhereItIsTheTrueOne) {
  const std::vector<Function> functions = {
      {{{3}}, [](const Xs& x) { return Softplus(x[0]); }},
      {{{3}}, [](const Xs& x) { return Softplus(Softplus(x[0]) * x[0]); }},
      {{{3, 4}, {4, 2}}, [](const Xs& x) { return Product(x[0], x[1]); }},
      {{{3, 4}, {4, 4}},
       [](const Xs& x) {
         return Product(Product(x[0], x[1]), Transpose(x[1], {1, 0}));
       }},
      {{{4, 4}}, [](const Xs& x) { return Product(x[0], x[0]); }},
      // In a body, for its carries and for the values that it reads from outside.
      {{{2, 2}, {2, 2}},
       [](const Xs& x) {
         return Scan(*x[0].graph(), {x[0]}, {},
                     [&](Graph&, const Values& carries, const Values&) {
                       return ScanStep{.carries = {Softplus(Product(carries[0], x[1]))}};
                     },
                     {.length = 3})
             .carries[0];
       }},
      // A custom gradient within that of another function.
      {{{3}},
       [](const Xs& x) {
         return CustomGradient(Square(Square(x[0])), {x[0]}, [&](const Value& dy) {
           const Value cube = CustomGradient(x[0] * x[0] * x[0] * dy, {x[0], dy}, [&](const Value& d) {
             return Values{d * 3.0 * Square(x[0]) * dy, d * x[0] * x[0] * x[0]};
           });
           return Values{4.0 * cube};
         });
       }},
  };
  for (const Function& function : functions) {
    ExpectGradientIsRight(function);
    ExpectGradientIsRight(GradientOf(function));  // of second order
  }
}

TEST(CustomGradientTest, IsWhatItIsSaidToBe) {
  // Gradients of round as if it did not round; reversed; clipped.
  EXPECT_THAT(
      GradientOfSum({F64, {3}}, {0.2, 1.7, -3.4},
                    [](const Value& x) {
                      return CustomGradient(Round(x), {x}, [](const Value& dy) { return Values{dy}; }) * x;
                    }),
      ElementsAre(0.2, 1.7 + 2, -3.4 - 3));
  EXPECT_THAT(
      GradientOfSum({F64, {2}}, {3, 4},
                    [](const Value& x) {
                      return CustomGradient(x, {x}, [](const Value& dy) { return Values{-0.5 * dy}; }) * 6.0;
                    }),
      ElementsAre(-3, -3));
  EXPECT_THAT(GradientOfSum({F64, {2}}, {3, 4},
                            [](const Value& x) {
                              return CustomGradient(
                                         x, {x},
                                         [](const Value& dy) { return Values{Clip(dy, -1.0, 1.0)}; }) *
                                     Constant(*x.graph(), 5.0, {F64, {}});
                            }),
              ElementsAre(1, 1));
  // No gradient at all.
  EXPECT_THAT(
      GradientOfSum({F64, {2}}, {3, 4},
                    [](const Value& x) {
                      return CustomGradient(Square(x), {x}, [](const Value&) { return Values{Value()}; }) + x;
                    }),
      ElementsAre(1, 1));
}

// Two inputs, of which one has a gradient; an input without a gradient gets none.
TEST(CustomGradientTest, InputsThatAreNotNamedGetNone) {
  Graph g{Mesh()};
  const Value a = In(g, "a", {2}), b = In(g, "b", {2}), c = In(g, "c", {2});
  const Value y = CustomGradient(a * b * c, {a, b}, [&](const Value& dy) {
    return Values{dy * b * c, Value()};
  });
  const Values grads = Gradients(ReduceSum(y), {a, b, c});
  ASSERT_EQ(g.status().message(), "");
  for (size_t i = 0; i < 3; ++i) g.Output(std::string(1, static_cast<char>('a' + i)), grads[i]);
  const auto outputs = Interpret(g, {{"a", {1, 2}}, {"b", {3, 4}}, {"c", {5, 6}}}).outputs;
  EXPECT_THAT(outputs.at("a").Numbers(), ElementsAre(15, 24));
  EXPECT_THAT(outputs.at("b").Numbers(), ElementsAre(0, 0));
  EXPECT_THAT(outputs.at("c").Numbers(), ElementsAre(0, 0));
}

// A graph that was read from text has the gradient, too: the gradient is part of the program.
TEST(CustomGradientTest, StandsInTheText) {
  Graph g{Mesh()};
  const Value x = In(g, "x", {2}, F32);
  g.Output("y", Softplus(x));
  EXPECT_EQ(PrintGraph(g),
            "mesh []\n"
            "func step(%x: f32[2] {_}) {\n"
            "  %0 = exp %x : f32[2]\n"
            "  %1 = constant value=1 shape=[] : f32[]\n"
            "  %2 = add %1, %0 : f32[2]\n"
            "  %3 = log %2 : f32[2]\n"
            "  %4 = stop_gradient %3 : f32[2]\n"
            "  %5 = constant value=1 shape=[] : f32[]\n"
            "  %6 = add %5, %0 : f32[2]\n"
            "  %7 = constant value=1 shape=[] : f32[]\n"
            "  %8 = div %7, %6 : f32[2]\n"
            "  %9 = constant value=1 shape=[] : f32[]\n"
            "  %10 = sub %9, %8 : f32[2]\n"
            "  %11 = mul %4, %10 : f32[2]\n"
            "  %12 = custom_gradient %3, %4, %x, %11 : f32[2]\n"
            "  return y=%12\n"
            "}\n");
  Graph read = ParseGraph(PrintGraph(g)).value();
  const Value y(&read, read.outputs()[0].value), again(&read, read.arguments()[0].value);
  read.Output("gradient", Gradients(ReduceSum(y), {again})[0]);
  const auto outputs = Interpret(read, {{"x", {0, 0}}}).outputs;
  EXPECT_THAT(outputs.at("gradient").Numbers(), ElementsAre(0.5, 0.5));
}

// Ops that only the gradient reads cost nothing if no gradient is taken, in bodies neither.
TEST(CustomGradientTest, LeavesNothingInProgramsWithoutGradients) {
  Graph g(Mesh::Parse("batch=2").value());
  const Value x = g.Input("x", F32, {4}, {"batch"});
  const auto scanned = Scan(g, {x}, {},
                            [&](Graph&, const Values& carries, const Values&) {
                              return ScanStep{.carries = {Softplus(carries[0])}};
                            },
                            {.length = 2});
  g.Output("y", Softplus(scanned.carries[0]));
  const Program program = Compile(g).value();
  const std::string text = PrintGraph(program.body);
  for (const char* op : {" div ", " sub ", " mul ", "stop_gradient", "custom_gradient"})
    EXPECT_EQ(text.find(op), std::string::npos) << op << "\n" << text;
}

}  // namespace
}  // namespace meshwork::custom_gradient_test
