// Updates that leave elements without a gradient unchanged, such as the rows of a table that a step does not look up. A
// GPU makes these updates without touching such rows (ops/kernels/cuda/parts.h).
#pragma once

#include "meshwork/ir/graph.h"
#include "meshwork/ir/operand.h"
#include "meshwork/ops/optimizer.h"

namespace meshwork {

// The operands of AdamUpdate (ops/optimizer.h).
struct AdamOperands {
  Value weight, gradient, first_moment, second_moment, step;
  Operand learning_rate = 0.0;
};
struct AdamNumbers {
  double beta1, beta2, epsilon, weight_decay;
};
// AdamUpdate, but elements whose gradient is 0 keep their weight and moments.
AdamResult LazyAdamUpdate(const AdamOperands& operands, const AdamNumbers& numbers,
                          CallSite loc = CallSite::Current());

struct AdagradResult {
  Value weight, accumulator;
};
// a' = a + g²; w' = w - learning_rate g / (sqrt(a') + epsilon), see Adagrad in train/optim/optimizers.h. Elements whose
// gradient is 0 keep both, even where the quotient is 0 / 0. learning_rate: a number, or a float scalar.
AdagradResult AdagradUpdate(const Value& weight, const Value& gradient, const Value& accumulator,
                            const Operand& learning_rate, double epsilon, CallSite loc = CallSite::Current());

}  // namespace meshwork
