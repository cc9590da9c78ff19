// Other dtypes, and constants to gradients. Part of ops/ops.h, which says what holds for all ops.
#pragma once

#include "meshwork/ir/graph.h"
#include "meshwork/ir/operand.h"

namespace meshwork {

// The bits of x as those of another dtype of the same size: f32 and i32, f64 and i64.
Value Bitcast(const Operand& x, DType dtype);

// x as another dtype, rounded once, to the nearest. Real to whole: towards zero, clamped to the range, NaN
// becomes 0. Between whole dtypes, high bits are dropped. To bool: x != 0. The gradient passes between reals.
Value Cast(const Operand& x, DType dtype);
// The same; x itself if it has the dtype or is invalid.
Value InDType(const Value& x, DType dtype);
// The same value, which gradients treat as a constant.
Value StopGradient(const Operand& x);

}  // namespace meshwork
