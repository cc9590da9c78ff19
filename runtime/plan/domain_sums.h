// Sums of all domains that a library makes where the data lies: ncclAllReduce between GPUs (NcclAllReduce,
// runtime/cpu/cross_device_ops.h). One RemoteStep takes the place of exchanges and of the sums of what was received:
//
//   all_reduce over domains      every domain sends a part to each, adds up, sends the sums      in the order of the devices
//   the same as a domain sum     one operation, from the operand's memory to the result's        in an order of the library's own
//
// Pure functions; thread-safe for different plans.
#pragma once

#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/mesh/placement.h"
#include "meshwork/runtime/plan/buffers.h"
#include "meshwork/runtime/plan/messages.h"
#include "meshwork/runtime/plan/step_plan.h"

namespace meshwork {

// Whether NCCL makes this reduction. It does not make max and min of reals, because NCCL drops NaN there and other
// reductions keep it; nor reductions of bools.
bool NcclReduces(DType dtype, ReduceOp op);

// Whether `node` is an all_reduce of one term from each domain, over all domains, that NCCL can make. `values`: the
// instances of this domain. The answer is the same in all domains.
bool IsDomainSum(const Graph& local, int node, const Placement& placement,
                 const std::vector<ValueBuffers>& values);

// The steps of such a node. Its results are written from the start on. REQUIRES: IsDomainSum.
CrossingSteps PlanDomainSum(int node, const std::vector<ValueBuffers>& values, StepPlan& plan);

}  // namespace meshwork
