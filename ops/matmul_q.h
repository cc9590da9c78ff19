// Products with quantised matrices. Part of ops/ops.h, which says what holds for all ops.
//
// The numbers of a row, 32 at a time, are small whole numbers q with a scale and a zero: scale q + zero. K is the number of
// blocks of a row, k = 32 K.
//
//          8 bits        4 bits
//   q      i8[n,K,32]    u8[n,K,16]   byte j of a block: number j in the low half, j + 16 in the high half, 0 to 15 each
//   scale  f16[n,K]      f16[n,K]
//   zero   f16[n,K]      f16[n,K]     or none: 0
//
// These are the blocks of GGUF, apart by kind: Q8_0 (without zero), Q4_1, and Q4_0, whose zero is -8 scale. QuantizeMatrix
// (runtime/tensor/quantized.h) makes them of numbers, GgufFile::ReadBlocks reads them, QuantizeWeights
// (session/quantize_weights.h) puts them into a program.
#pragma once

#include "meshwork/ir/graph.h"
#include "meshwork/ir/operand.h"

namespace meshwork {

// x: […,m,k] in f32, f64 or bf16, times the transpose of the quantised [n,k] -> […,m,n] of x's dtype: as MatMul(x,
// DequantizeMatrix(q, scale, zero), false, true), without that matrix in memory. An invalid `zero` is none.
//
// x is not rounded. Products are summed in f32 (f64 for f64), long sums in parts (ops/kernels/long_sum.h): the error is that
// of MatMul. May be cut along the dims of x but the last one, along n, and along K, which leaves a sum to be made; x is
// reshaped to […,m,K,32], so that axes that divide K cut k, too.
//
// The gradient is that by x. q, scale and zero are constants to gradients, as all of i8, u8 and f16 are.
// Errors: a vector; dtypes and sizes other than those above.
Value MatMulQ(const Operand& x, const Operand& q, const Operand& scale, const Value& zero = {});

// q: […,K,32] or […,K,16], scale and zero: […,K] -> f32[…,k], the numbers that they stand for: of a whole matrix, or of the
// rows that a lookup finds. A composite. Errors: those of MatMulQ.
Value DequantizeMatrix(const Operand& q, const Operand& scale, const Value& zero = {});

}  // namespace meshwork
