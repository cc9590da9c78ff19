// C++ operators of values: a + b is Add(a, b), a < b is Less(a, b). There is no == and no !=, because generic code
// would take them for comparisons of the handles; use Equal and NotEqual. Part of ops/ops.h, which says what holds for
// all ops.
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
inline Value operator<(const Operand& a, const Operand& b) { return Less(a, b); }
inline Value operator<=(const Operand& a, const Operand& b) { return LessEqual(a, b); }
inline Value operator>(const Operand& a, const Operand& b) { return Greater(a, b); }
inline Value operator>=(const Operand& a, const Operand& b) { return GreaterEqual(a, b); }
inline Value operator~(const Operand& x) { return Not(x); }

// a += b makes the handle `a` stand for a + b. A variable does not change: Graph::Update sets its next value.
inline Value& operator+=(Value& a, const Operand& b) { return a = Add(Operand(a, b.location()), b); }
inline Value& operator-=(Value& a, const Operand& b) { return a = Sub(Operand(a, b.location()), b); }
inline Value& operator*=(Value& a, const Operand& b) { return a = Mul(Operand(a, b.location()), b); }
inline Value& operator/=(Value& a, const Operand& b) { return a = Div(Operand(a, b.location()), b); }
Value& operator+=(Variable& a, const Operand& b) = delete;
Value& operator-=(Variable& a, const Operand& b) = delete;
Value& operator*=(Variable& a, const Operand& b) = delete;
Value& operator/=(Variable& a, const Operand& b) = delete;

}  // namespace meshwork
