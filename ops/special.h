// Special functions, element by element. Part of ops/ops.h; ops/arithmetic.h says what holds for all such
// ops.
#pragma once

#include <cstdint>

#include "meshwork/ir/graph.h"
#include "meshwork/ir/operand.h"

namespace meshwork {

// Special functions of reals.
Value Exp2(const Operand& x);
Value Log2(const Operand& x);
Value Log10(const Operand& x);
Value LogGamma(const Operand& x);  // log |Γ(x)|
Value Digamma(const Operand& x);   // the derivative of LogGamma, Polygamma(x, 0)
// The derivative of LogGamma of order `order` + 1, order from 0 to 100. At 0, -1, …: ∞ if order is odd, else
// NaN.
Value Polygamma(const Operand& x, int64_t order);
Value ErfInv(const Operand& x);                       // ±∞ at ±1, NaN beyond
Value LogAddExp(const Operand& a, const Operand& b);  // log(exp(a) + exp(b)), for all sizes of a and b
Value Hypot(const Operand& a, const Operand& b);      // sqrt(a² + b²); gradient 0 at (0, 0)
Value XLogY(const Operand& x,
            const Operand& y);  // x log(y); 0 where x is 0 and y is not NaN; so are the gradients
Value Sinc(const Operand& x);   // sin(πx) / (πx)

}  // namespace meshwork
