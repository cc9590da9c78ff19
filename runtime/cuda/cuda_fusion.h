// Groups steps of a plan to kernels on a GPU: elementwise ops, and reductions of rows with the ops that read their
// results (MakeCudaChain and MakeCudaRows, ops/kernels/cuda/cuda_kernel.h).
//
//   cast bf16[512,256] -> f32[512,256]: s1 -> s2        ┐
//   reduce_max f32[512,256] -> f32[512,1]: s2 -> s3     │
//   sub f32[512,256] f32[512,1] -> f32[512,256]: s2 s3 -> s2   one kernel: reads s1, writes s5;
//   exp f32[512,256] -> f32[512,256]: s2 -> s2          │     s2, s3 and s4 need no memory
//   reduce_sum f32[512,256] -> f32[512,1]: s2 -> s4     │
//   div f32[512,256] f32[512,1] -> f32[512,256]: s2 s4 -> s5   ┘
//
// A step that could join a group, but has other steps between, is moved up to the group if the storages that these
// touch permit it (fusion_order.h). A kernel writes only values that later steps read. Updates of weights are one
// launch, too (cuda_parts.h).
// Results are those of the steps one by one, bit by bit.
//
// Pure functions, thread-safe.
#pragma once

#include <vector>

#include "meshwork/runtime/cuda/cuda_group.h"
#include "meshwork/runtime/plan/step_plan.h"

namespace meshwork {

// The plan in an order in which steps that can be one launch follow each other, in the bodies of its loops, too. Law:
// of two steps of which one writes a storage that the other touches, the first stays the first.
StepPlan OrderForFusion(StepPlan plan);

// The plan that a step on a GPU launches: ordered for fusion and, unless it then needs more memory, with values that
// are computed again (rematerialize.h). Without `fuse`, the plan as it is.
StepPlan PlanLaunches(StepPlan plan, bool fuse);

// The groups of two or more steps, in order, without those of bodies. Keeps pointers into the plan.
std::vector<CudaGroup> FindCudaGroups(const StepPlan& plan);

}  // namespace meshwork
