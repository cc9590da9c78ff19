// The family of functions of one real: powers and logarithms, the error function, trigonometric and
// hyperbolic functions and their inverses, rounding.
#include <numbers>

#include "meshwork/ops/elementwise.h"
#include "meshwork/ops/families.h"

namespace meshwork {
namespace {

Rule FallingRule(const OpView& view) { return ElementwiseRule(view, Decreasing()); }
Rule CbrtRule(const OpView& view) { return ElementwiseRule(view, Increasing() + Multiplicative()); }

constexpr double kErfSlope = 2 * std::numbers::inv_sqrtpi;

Value Bell(const Value& x) { return Exp(Neg(x * x)); }
// 1/sqrt(1 - x²), exact near ±1.
Value CircleSlope(const Value& x) { return Rsqrt((1.0 - x) * (1.0 + x)); }

std::vector<OpRow> PowerRows() {
  return {
      RealRow("exp", "e to the x", MESHWORK_OF_X(Exp(x)),
              [](const Value& g, const Value&, const Value& y) { return g * y; }, {.rule = GrowingRule}),
      RealRow("expm1", "e to the x, minus 1, exact near 0", MESHWORK_OF_X(Expm1(x)),
              [](const Value& g, const Value& x, const Value&) { return g * Exp(x); }, {.rule = GrowingRule}),
      RealRow("log", "natural logarithm", MESHWORK_OF_X(Log(x)),
              [](const Value& g, const Value& x, const Value&) { return g / x; },
              {.rule = GrowingUpwardsRule, .sample_low = 0.25}),
      RealRow("log1p", "log(1 + x), exact near 0", MESHWORK_OF_X(Log1p(x)),
              [](const Value& g, const Value& x, const Value&) { return g / (1.0 + x); },
              {.rule = GrowingUpwardsRule, .sample_low = -0.75}),
      RealRow("sqrt", "square root", MESHWORK_OF_X(Sqrt(x)),
              [](const Value& g, const Value&, const Value& y) { return g * 0.5 / y; },
              {.rule = GrowingUpwardsRule, .sample_low = 0.25}),
      RealRow("rsqrt", "1 / sqrt(x)", MESHWORK_OF_X(T(1) / Sqrt(x)),
              [](const Value& g, const Value& x, const Value& y) { return g * -0.5 * (y / x); },
              {.sample_low = 0.25}),
      RealRow("cbrt", "cube root", MESHWORK_OF_X(Cbrt(x)),
              [](const Value& g, const Value&, const Value& y) { return g / (3.0 * y * y); },
              {.rule = CbrtRule, .sample_low = 0.25}),
      RealRow("erf", "2/sqrt(π) times the integral of exp(-t²) from 0 to x", MESHWORK_OF_X(Erf(x)),
              [](const Value& g, const Value& x, const Value&) { return g * kErfSlope * Bell(x); },
              {.rule = GrowingRule}),
      RealRow("erfc", "1 - erf(x), exact where that is small", MESHWORK_OF_X(Erfc(x)),
              [](const Value& g, const Value& x, const Value&) { return g * -kErfSlope * Bell(x); },
              {.rule = FallingRule}),
  };
}

std::vector<OpRow> CircularRows() {
  return {
      RealRow("sin", "sine of x in radians", MESHWORK_OF_X(Sin(x)),
              [](const Value& g, const Value& x, const Value&) { return g * Cos(x); }),
      RealRow("cos", "cosine of x in radians", MESHWORK_OF_X(Cos(x)),
              [](const Value& g, const Value& x, const Value&) { return Neg(g * Sin(x)); }),
      RealRow("tan", "tangent of x in radians", MESHWORK_OF_X(Tan(x)),
              [](const Value& g, const Value&, const Value& y) { return g * (1.0 + y * y); },
              {.sample_high = 1.25}),
      RealRow("asin", "the angle in [-π/2, π/2] whose sine is x", MESHWORK_OF_X(Asin(x)),
              [](const Value& g, const Value& x, const Value&) { return g * CircleSlope(x); },
              {.sample_low = -0.9, .sample_high = 0.9}),
      RealRow("acos", "the angle in [0, π] whose cosine is x", MESHWORK_OF_X(Acos(x)),
              [](const Value& g, const Value& x, const Value&) { return Neg(g * CircleSlope(x)); },
              {.sample_low = -0.9, .sample_high = 0.9}),
      RealRow("atan", "the angle in [-π/2, π/2] whose tangent is x", MESHWORK_OF_X(Atan(x)),
              [](const Value& g, const Value& x, const Value&) { return g / (1.0 + x * x); },
              {.rule = GrowingRule}),
  };
}

std::vector<OpRow> HyperbolicRows() {
  return {
      RealRow("sinh", "hyperbolic sine", MESHWORK_OF_X(Sinh(x)),
              [](const Value& g, const Value& x, const Value&) { return g * Cosh(x); },
              {.rule = GrowingRule}),
      RealRow("cosh", "hyperbolic cosine", MESHWORK_OF_X(Cosh(x)),
              [](const Value& g, const Value& x, const Value&) { return g * Sinh(x); }),
      RealRow("tanh", "hyperbolic tangent", MESHWORK_OF_X(Tanh(x)),
              [](const Value& g, const Value&, const Value& y) { return g * (1.0 - y * y); },
              {.rule = GrowingRule}),
      RealRow("asinh", "the number whose hyperbolic sine is x", MESHWORK_OF_X(Asinh(x)),
              [](const Value& g, const Value& x, const Value&) { return g * Rsqrt(1.0 + x * x); },
              {.rule = GrowingRule}),
      RealRow("acosh", "the number >= 0 whose hyperbolic cosine is x", MESHWORK_OF_X(Acosh(x)),
              [](const Value& g, const Value& x, const Value&) { return g * Rsqrt((x - 1.0) * (x + 1.0)); },
              {.rule = GrowingUpwardsRule, .sample_low = 1.25, .sample_high = 3}),
      RealRow("atanh", "the number whose hyperbolic tangent is x", MESHWORK_OF_X(Atanh(x)),
              [](const Value& g, const Value& x, const Value&) { return g / ((1.0 - x) * (1.0 + x)); },
              {.sample_low = -0.9, .sample_high = 0.9}),
  };
}

std::vector<OpRow> RoundingRows() {
  return {
      RealRow("floor", "the largest whole number not above x", MESHWORK_OF_X(Floor(x)), nullptr,
              {.rule = GrowingRule}),
      RealRow("ceil", "the smallest whole number not below x", MESHWORK_OF_X(Ceil(x)), nullptr,
              {.rule = GrowingRule}),
      RealRow("round", "the nearest whole number; halves go to the even one", MESHWORK_OF_X(Nearest(x)),
              nullptr, {.rule = GrowingRule}),
      RealRow("trunc", "x without its fraction", MESHWORK_OF_X(Trunc(x)), nullptr, {.rule = GrowingRule}),
  };
}

}  // namespace

std::span<const OpRow> UnaryOps() {
  static const auto* rows = [] {
    auto* all = new std::vector<OpRow>;
    for (auto* family : {PowerRows, CircularRows, HyperbolicRows, RoundingRows})
      for (OpRow& row : family()) all->push_back(std::move(row));
    return all;
  }();
  return *rows;
}

Value Exp(const Operand& x) { return AddOp("exp", {x}); }
Value Expm1(const Operand& x) { return AddOp("expm1", {x}); }
Value Log(const Operand& x) { return AddOp("log", {x}); }
Value Log1p(const Operand& x) { return AddOp("log1p", {x}); }
Value Sqrt(const Operand& x) { return AddOp("sqrt", {x}); }
Value Rsqrt(const Operand& x) { return AddOp("rsqrt", {x}); }
Value Cbrt(const Operand& x) { return AddOp("cbrt", {x}); }
Value Erf(const Operand& x) { return AddOp("erf", {x}); }
Value Erfc(const Operand& x) { return AddOp("erfc", {x}); }
Value Sin(const Operand& x) { return AddOp("sin", {x}); }
Value Cos(const Operand& x) { return AddOp("cos", {x}); }
Value Tan(const Operand& x) { return AddOp("tan", {x}); }
Value Asin(const Operand& x) { return AddOp("asin", {x}); }
Value Acos(const Operand& x) { return AddOp("acos", {x}); }
Value Atan(const Operand& x) { return AddOp("atan", {x}); }
Value Sinh(const Operand& x) { return AddOp("sinh", {x}); }
Value Cosh(const Operand& x) { return AddOp("cosh", {x}); }
Value Tanh(const Operand& x) { return AddOp("tanh", {x}); }
Value Asinh(const Operand& x) { return AddOp("asinh", {x}); }
Value Acosh(const Operand& x) { return AddOp("acosh", {x}); }
Value Atanh(const Operand& x) { return AddOp("atanh", {x}); }
Value Floor(const Operand& x) { return AddOp("floor", {x}); }
Value Ceil(const Operand& x) { return AddOp("ceil", {x}); }
Value Round(const Operand& x) { return AddOp("round", {x}); }
Value Trunc(const Operand& x) { return AddOp("trunc", {x}); }

}  // namespace meshwork
