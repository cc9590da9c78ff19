// The form of matrices that are quantised in blocks of 32 numbers, for their row and their kernels.
//
// A block has a scale d, a zero z, both f16, and 32 small whole numbers q; it stands for the numbers d q + z. Numbers of
// 8 bits are i8[32]. Numbers of 4 bits, 0 to 15, lie in u8[16]: byte j has number j in its low half and number j + 16 in
// its high half (as in GGUF, storage/ggml_type.h). d q is exact in f32, so d q + z is rounded once, fused or not: every
// kernel computes with the same numbers.
#pragma once

#include <cstdint>

#include "meshwork/ir/type.h"

namespace meshwork {

inline constexpr int64_t kBlockNumbers = 32;

// The bytes of a block of numbers in q of this dtype, which are q's last dim; 0: q has no such dtype.
inline int64_t BytesOfBlock(DType q) { return q == I8 ? kBlockNumbers : q == U8 ? kBlockNumbers / 2 : 0; }

}  // namespace meshwork
