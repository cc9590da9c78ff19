// Products of matrices, and Einstein's sums. Part of ops/ops.h, which says what holds for all ops.
#pragma once

#include <string_view>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/ir/operand.h"

namespace meshwork {

// Matrix product: a: […,m,k] ([…,k,m] if transpose_a), b: […,k,n] ([…,n,k] if transpose_b) -> […,m,n].
// The dims before the last two are a batch of matrices and broadcast, right-aligned: [8,1,m,k] and [4,k,n]
// give [8,4,m,n]. bf16 is multiplied and summed in float and rounded once. Errors: a vector, sizes that
// differ.
Value MatMul(const Operand& a, const Operand& b, bool transpose_a = false, bool transpose_b = false);
// Einstein's sums, as NumPy writes them: each dim of an operand has a letter (a to z, A to Z). The result is
// the product of the operands, summed over all letters that the result does not name. "bij,bjk->bik" are
// products of matrices, "ii->i" a diagonal, "...i->..." sums; the dims of "..." broadcast. Without an arrow,
// the result has "..." and the letters that occur once, capitals first. A composite: sums and one MatMul (or
// Mul) per pair of operands, in the order that takes the fewest multiplications. Errors: a malformed
// equation, letters or sizes that do not fit, dtypes that are not floats or not all equal. Without operands
// the result is invalid.
Value Einsum(std::string_view equation, const std::vector<Value>& operands,
             CallSite loc = CallSite::Current());

}  // namespace meshwork
