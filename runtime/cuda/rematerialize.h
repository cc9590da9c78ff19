// Rematerialization: a value that a kernel would read from memory is computed again in that kernel, if that reads
// fewer bytes.
//
//   x: bf16 ─ cast ─▶ f32 ─ reduce_sum         two kernels: the first one writes the f32, which the second one reads
//                      └──── sub, mul, cast    after it: each casts x by itself, and no f32 is in memory
//
// So a batch norm of bf16 moves 2 bytes per element and pass instead of 4. Results have the same bits.
#pragma once

#include "meshwork/runtime/plan/step_plan.h"

namespace meshwork {

// Adds steps that compute such values again, before the groups of steps that read them, and removes steps whose
// results nothing reads any more; in the bodies of loops, too. REQUIRES: OrderForFusion (cuda_fusion.h) has ordered
// the steps.
StepPlan Rematerialize(StepPlan plan);

}  // namespace meshwork
