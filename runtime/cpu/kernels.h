// The CPU kernels of a step plan.
#pragma once

#include "meshwork/ir/kernel.h"
#include "meshwork/runtime/step_plan.h"

namespace meshwork {

// The kernel of a compute step of `plan`, on the first instance of each operand and result, the others behind
// it. With one_by_one, units / items.count() of its units are one instance. It keeps nothing of the plan.
Kernel MakeKernel(const StepPlan& plan, const ComputeStep& compute);

}  // namespace meshwork
