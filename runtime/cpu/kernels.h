// The CPU kernels of a step plan.
#pragma once

#include "meshwork/ir/kernel.h"
#include "meshwork/runtime/plan/step_plan.h"

namespace meshwork {

// The kernel of a compute step of `plan`. Its pointers are to the first instance of each operand and result;
// the other instances follow. With one_by_one, units / items.count() units are one instance. The kernel keeps
// no pointers into the plan.
Kernel MakeKernel(const StepPlan& plan, const ComputeStep& compute);

}  // namespace meshwork
