// C++ operators of values: a + b is Add(a, b). Part of ops/ops.h, which says what holds for all ops.
#pragma once

#include "meshwork/ir/operand.h"
#include "meshwork/ops/arithmetic.h"
#include "meshwork/ops/compare.h"

namespace meshwork {

inline Value operator+(const Operand& a, const Operand& b) { return Add(a, b); }
inline Value operator-(const Operand& a, const Operand& b) { return Sub(a, b); }
inline Value operator*(const Operand& a, const Operand& b) { return Mul(a, b); }
inline Value operator/(const Operand& a, const Operand& b) { return Div(a, b); }
inline Value operator%(const Operand& a, const Operand& b) { return Remainder(a, b); }
inline Value operator-(const Operand& x) { return Neg(x); }
inline Value operator&(const Operand& a, const Operand& b) { return And(a, b); }
inline Value operator|(const Operand& a, const Operand& b) { return Or(a, b); }
inline Value operator^(const Operand& a, const Operand& b) { return Xor(a, b); }
inline Value operator~(const Operand& x) { return Not(x); }

}  // namespace meshwork
