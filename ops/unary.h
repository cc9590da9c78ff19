// Functions of one real, element by element. Part of ops/ops.h; ops/arithmetic.h says what holds for all such
// ops.
#pragma once

#include "meshwork/ir/graph.h"
#include "meshwork/ir/operand.h"

namespace meshwork {

// Elementwise, reals.
Value Exp(const Operand& x);
Value Expm1(const Operand& x);  // exp(x) - 1, exact near 0
Value Log(const Operand& x);
Value Log1p(const Operand& x);  // log(1 + x), exact near 0
Value Sqrt(const Operand& x);
Value Rsqrt(const Operand& x);  // 1 / sqrt(x)
Value Cbrt(const Operand& x);
Value Erf(const Operand& x);
Value Erfc(const Operand& x);
Value Sin(const Operand& x);
Value Cos(const Operand& x);
Value Tan(const Operand& x);
Value Asin(const Operand& x);
Value Acos(const Operand& x);
Value Atan(const Operand& x);
Value Sinh(const Operand& x);
Value Cosh(const Operand& x);
Value Tanh(const Operand& x);
Value Asinh(const Operand& x);
Value Acosh(const Operand& x);
Value Atanh(const Operand& x);
Value Floor(const Operand& x);  // the gradient of Floor, Ceil, Round and Trunc is 0
Value Ceil(const Operand& x);
Value Round(const Operand& x);  // to the nearest, halves to the even one
Value Trunc(const Operand& x);  // towards zero

}  // namespace meshwork
