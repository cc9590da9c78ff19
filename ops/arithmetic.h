// Arithmetic, element by element. Part of ops/ops.h, which says what holds for all ops.
#pragma once

#include "meshwork/ir/graph.h"
#include "meshwork/ir/operand.h"

namespace meshwork {

// Elementwise, with right-aligned broadcast: [m,n] with [n], [1,n], [m,1] or [].
// Numbers are f32, f64, bf16 (reals; bf16 is computed in f32 and rounded once), i32, i64 (whole; overflow
// wraps around). NaN in, NaN out, except for comparisons, tests and casts. Gradients are those of calculus;
// where there is none (a tie, a corner), the comment says which value is taken. Errors: shapes that do not
// broadcast, dtypes that differ or that the op does not take.

Value Add(const Operand& a, const Operand& b);
Value Sub(const Operand& a, const Operand& b);
Value Mul(const Operand& a, const Operand& b);
Value Div(const Operand& a, const Operand& b);        // whole: towards zero, x/0 is 0
Value Remainder(const Operand& a, const Operand& b);  // a - trunc(a/b) b, with the sign of a; whole by 0: a
// Reals as std::pow; whole a^-b is 1/a^b towards zero, 0^-b is 0. The gradient by b is 0 where a <= 0.
Value Pow(const Operand& a, const Operand& b);
Value Maximum(const Operand& a, const Operand& b);  // NaN if either is; of equal ones a takes the gradient
Value Minimum(const Operand& a, const Operand& b);
Value SquaredDifference(const Operand& a, const Operand& b);  // (a - b)²
Value Atan2(const Operand& y, const Operand& x);              // reals: the angle of (x, y), in (-π, π]
Value Neg(const Operand& x);
Value Abs(const Operand& x);   // gradient 0 at 0
Value Sign(const Operand& x);  // -1, 0, 1; ±0 and NaN stay
Value Square(const Operand& x);
Value Reciprocal(const Operand& x);  // reals
// min(max(x, low), high), whose gradient is 1 from low to high, both included. low, high may be ±infinity.
// Between bounds that are Values, write Minimum(Maximum(x, low), high): the same values and gradients.
// Errors: low above high, NaN, or not whole while x is.
Value Clip(const Operand& x, double low, double high);

// ---- Quotients of other kinds.
Value FloorDiv(const Operand& a, const Operand& b);  // floor(a / b), of whole numbers, too (x/0 is 0)
Value FloorMod(const Operand& a, const Operand& b);  // a - floor(a/b) b, with the sign of b; whole by 0: a
Value DivNoNan(const Operand& a, const Operand& b);  // a / b; 0 where b is 0, and so are its gradients

}  // namespace meshwork
