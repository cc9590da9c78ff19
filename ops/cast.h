// Casts, StopGradient, custom gradients, and values that differ between training and evaluation. Part of ops/ops.h,
// which says what holds for all ops.
#pragma once

#include <functional>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/ir/operand.h"
#include "meshwork/ir/value_list.h"

namespace meshwork {

// The bits of x as those of another dtype of the same size: f32 and i32, f64 and i64, f16 and bf16, u8 and i8.
Value Bitcast(const Operand& x, DType dtype);

// x as another dtype, rounded once, to the nearest. Real to whole: towards zero, clamped to the range, NaN
// becomes 0. Between whole dtypes, high bits are dropped. To bool: x != 0. The gradient passes between f32, f64 and
// bf16; a value in f16 is a constant to it. This is the only op that computes with f16, u8 and i8: inputs of these
// dtypes are cast first.
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
//   Value h = WhenTraining(StatelessDropout(x, 0.5, /*seed=*/7, /*stream=*/0, step), x);
//
// A compiled program trains (Session::Run); Session::Evaluate and Predict compile programs that do not. Nodes that only
// the other value needs are not computed. Gradients are those of `training`.
Value WhenTraining(const Operand& training, const Operand& otherwise);
// y with a custom gradient. `backward` gets the gradient of the result, of y's type, and returns the gradient of each
// of `inputs`, of the input's type; Value() if an input has none. The nodes that computed y pass no gradient on, so
// values that `inputs` does not name get no gradient from y. `backward` is called once, immediately, with a placeholder
// for the gradient; the nodes that it adds are repeated for the gradient of each loss. These nodes may have gradients,
// too: of second order.
//
//   Value Softplus(const Value& x) {  // log(1 + e^x)
//     const Value e = Exp(x);
//     return CustomGradient(Log(1 + e), {x}, [&](const Value& dy) { return std::vector{dy * (1 - 1 / (1 + e))}; });
//   }
//   CustomGradient(Round(x), {x}, [](const Value& dy) { return std::vector{dy}; });  // as if it did not round
//
// Mistakes: another number of gradients than of inputs; y, or an input with a gradient, that is not real; a gradient of
// another type than its input.
Value CustomGradient(const Operand& y, const ValueList& inputs,
                     const std::function<std::vector<Value>(const Value& dy)>& backward);

}  // namespace meshwork
