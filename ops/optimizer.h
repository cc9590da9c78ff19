// Update rules of optimizers. Part of ops/ops.h, which says what holds for all ops.
#pragma once

#include "meshwork/ir/graph.h"
#include "meshwork/ir/operand.h"

namespace meshwork {

// Optimizers: the update rules that are rows; train/optim/optimizers.h has all optimizers.
struct AdamResult {
  Value weight, first_moment, second_moment;
};
// w' = w - learning_rate (m̂ / (sqrt(v̂) + epsilon) + weight_decay w), see Adam and AdamW in
// train/optim/optimizers.h. step: i64 scalar, 1 at the first update. learning_rate: a number, or a
// float scalar.
AdamResult AdamUpdate(const Value& weight, const Value& gradient, const Value& first_moment,
                      const Value& second_moment, const Value& step, const Operand& learning_rate,
                      double beta1, double beta2, double epsilon, double weight_decay = 0,
                      CallSite loc = CallSite::Current());

}  // namespace meshwork
