// Matrices that are quantised in blocks of 32 numbers of a row, as MatMulQ and DequantizeMatrix (ops/matmul_q.h) take them.
//
//   MESHWORK_ASSIGN_OR_RETURN(const QuantizedMatrix w, QuantizeMatrix(weights, {.bits = 4}));  // f32[n,k]
//   // w.q: u8[n,k/32,16], w.scale: f16[n,k/32], w.zero: f16[n,k/32]
//
// Numbers are rounded as GGUF's reference does it. d is the scale before it is rounded to f16, |m| the largest number of the
// block:
//
//   bits  as    scale d         zero    q                              |number - what it becomes|, at most
//   8     Q8_0  m / 127         none    x / d, halves away from zero   d / 2 + m / 2^11
//   4     Q4_1  (max - min)/15  min     (x - min) / d, halves up       d / 2 + (max - min + |min|) / 2^11
//
// and in blocks whose scale is below 2^-14, the least normal f16, up to 127 (or 16) / 2^25 more. Thread-safe.
#pragma once

#include "absl/status/statusor.h"
#include "meshwork/ops/kernels/blocks_of_32.h"  // kBlockNumbers
#include "meshwork/runtime/tensor/tensor.h"

namespace meshwork {

// K blocks of 32 numbers make a row: scale q + zero.
struct QuantizedMatrix {
  Tensor q;      // […,K,32] in i8, or […,K,16] in u8
  Tensor scale;  // f16[…,K]
  Tensor zero;   // the same; not valid() if all zeros are 0
};

struct QuantizeOptions {
  int bits = 8;  // 8 or 4
};

// `matrix`: […,k], of real numbers. Errors: another dtype; k is no multiple of 32; other bits; a block with NaN, an infinite
// number, or a scale or zero beyond f16.
absl::StatusOr<QuantizedMatrix> QuantizeMatrix(const Tensor& matrix, const QuantizeOptions& options = {});

// The types of q and of scale, which is that of zero, too, for a matrix of this shape. REQUIRES: a multiple of 32 columns; bits is
// 8 or 4.
struct QuantizedTypes {
  Type q, scale;
};
QuantizedTypes QuantizedTypesOf(const Shape& matrix, int bits);

}  // namespace meshwork
