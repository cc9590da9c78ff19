// Rematerialization: a value that a kernel reads from memory is computed again in that kernel, where it is made of fewer bytes.
//
//   x: bf16 ─ cast ─▶ f32 ─ reduce_sum         two kernels: the first one writes the f32, which the second one reads
//                      └──── sub, mul, cast    after it: each casts x by itself, and no f32 is in memory
//
// A batch norm of bf16 so moves 2 bytes per element and pass, where it moved 4. Results have the same bits.
#pragma once

#include "meshwork/runtime/step_plan.h"

namespace meshwork {

// The plan with steps that compute such values again, before the groups of steps that read them, and without steps whose
// values nobody reads any more; in the bodies of its loops, too. REQUIRES: OrderForFusion (cuda_fusion.h) has ordered the steps.
StepPlan Rematerialize(StepPlan plan);

}  // namespace meshwork
