// Loss scaling: gradients that are too small for a narrow dtype are kept from becoming zero (Micikevicius et al., arXiv
// 1710.03740, section 3.2). bf16 has the exponents of f32 and seldom needs it.
//
//   const Minimized m = Adam({.loss_scale = LossScale()}).Minimize(loss);     // dynamic
//   g.Output("skipped", m.skipped());
//   Sgd({.loss_scale = LossScale::Static(1024)}).Minimize(loss);
//
// Minimize multiplies the loss by the scale before it takes gradients, and divides the gradients by it; clipping and
// the optimizer see the true ones. If an element of a gradient is infinite or NaN, the step is skipped: weights, the
// optimizer's state and its number of steps stay as they are. After a skipped step the scale is multiplied by
// `backoff`, after `growth_steps` good steps in a row by `growth`, unless that would overflow. As torch.amp.GradScaler
// and Keras' LossScaleOptimizer do. All of it is in the graph: variables "adam/loss_scale", f32[], and
// "adam/good_steps", i64[].
#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace meshwork {

struct LossScale {
  double initial = 65536;       // a power of two is divided out exactly
  int64_t growth_steps = 2000;  // 0: the scale never grows
  double growth = 2;            // above 1
  double backoff = 0.5;         // in (0, 1]

  // Steps are skipped, but the scale stays.
  static LossScale Static(double scale) { return {.initial = scale, .growth_steps = 0, .backoff = 1}; }
};

// Error: a number that is out of range.
absl::Status CheckLossScale(const LossScale& scale);

}  // namespace meshwork
