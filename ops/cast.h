// Other dtypes, constants to gradients, and what differs between training and evaluation. Part of ops/ops.h, which says what holds for all ops.
#pragma once

#include "meshwork/ir/graph.h"
#include "meshwork/ir/operand.h"

namespace meshwork {

// The bits of x as those of another dtype of the same size: f32 and i32, f64 and i64, f16 and bf16, u8 and i8.
Value Bitcast(const Operand& x, DType dtype);

// x as another dtype, rounded once, to the nearest. Real to whole: towards zero, clamped to the range, NaN
// becomes 0. Between whole dtypes, high bits are dropped. To bool: x != 0. The gradient passes between f32, f64 and bf16;
// a value in f16 is a constant to it. The only op that computes with f16, u8 and i8: what is fed in them is cast first.
//
//   const Value images = g.Input("images", U8, {128, 28, 28, 1}, {"batch", UNSHARDED, UNSHARDED, UNSHARDED});
//   const Value x = Cast(images, F32) / 255.0;
Value Cast(const Operand& x, DType dtype);
// The same; x itself if it has the dtype or is invalid.
Value InDType(const Value& x, DType dtype);
// The same value, which gradients treat as a constant.
Value StopGradient(const Operand& x);
// `training` where the program trains, `otherwise` where it evaluates or predicts; of one type:
//
//   Value h = WhenTraining(Dropout(x, 0.5, /*seed=*/7, /*stream=*/0, step), x);
//
// A compiled program trains (Session::Run); Session::Evaluate and Predict compile programs that do not. What only the
// other one needs is not computed. Gradients are those of training.
Value WhenTraining(const Operand& training, const Operand& otherwise);

}  // namespace meshwork
