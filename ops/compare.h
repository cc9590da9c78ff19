// Comparisons, logic and bits, element by element. Part of ops/ops.h; ops/arithmetic.h says what holds for
// all such ops.
#pragma once

#include "meshwork/ir/graph.h"
#include "meshwork/ir/operand.h"

namespace meshwork {

// Comparisons, of any dtype, to bool. false < true; NaN is unequal to all, and neither above nor below
// any.
Value Equal(const Operand& a, const Operand& b);
Value NotEqual(const Operand& a, const Operand& b);
Value Less(const Operand& a, const Operand& b);
Value LessEqual(const Operand& a, const Operand& b);
Value Greater(const Operand& a, const Operand& b);
Value GreaterEqual(const Operand& a, const Operand& b);
// Reals -> bool.
Value IsFinite(const Operand& x);  // neither infinite nor NaN
Value IsInf(const Operand& x);
Value IsNan(const Operand& x);

// ---- Elementwise, bools, and whole numbers bit by bit.
Value And(const Operand& a, const Operand& b);
Value Or(const Operand& a, const Operand& b);
Value Xor(const Operand& a, const Operand& b);
Value Not(const Operand& x);
// Whole numbers. An amount that is negative or not below the width shifts all bits out: the result is 0, or
// -1 if a negative number is shifted right arithmetically.
Value ShiftLeft(const Operand& a, const Operand& b);
Value ShiftRightArithmetic(const Operand& a, const Operand& b);
Value ShiftRightLogical(const Operand& a, const Operand& b);

// where(condition, a, b), of any dtype; condition: bool.
Value Select(const Value& condition, const Operand& a, const Operand& b);

// ---- Bits.
Value Popcount(const Operand& x);           // whole: the number of bits that are set
Value CountLeadingZeros(const Operand& x);  // whole: the number of 0 bits before the first set bit

}  // namespace meshwork
