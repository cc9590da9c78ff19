// Which steps of a plan are one kernel on a GPU: elementwise ops, and reductions of rows with what is computed from them
// (MakeCudaChain and MakeCudaRows, ops/kernels/cuda/cuda_kernel.h).
//
//   cast bf16[512,256] -> f32[512,256]: s1 -> s2        ┐
//   reduce_max f32[512,256] -> f32[512,1]: s2 -> s3     │
//   sub f32[512,256] f32[512,1] -> f32[512,256]: s2 s3 -> s2   one kernel: reads s1, writes s5;
//   exp f32[512,256] -> f32[512,256]: s2 -> s2          │     s2, s3 and s4 need no memory
//   reduce_sum f32[512,256] -> f32[512,1]: s2 -> s4     │
//   div f32[512,256] f32[512,1] -> f32[512,256]: s2 s4 -> s5   ┘
//
// Steps that could join a group but for others between them are moved up to it where nothing that they touch is touched in
// between (fusion_order.h). A kernel writes only what somebody reads behind it. Updates of weights are one launch, too (cuda_parts.h).
// Results are those of the steps one by one, bit by bit.
//
// Pure functions, thread-safe.
#pragma once

#include <vector>

#include "meshwork/runtime/cuda/cuda_group.h"
#include "meshwork/runtime/step_plan.h"

namespace meshwork {

// The plan in an order in which steps that can be one launch follow each other, in the bodies of its loops, too. Law: of two
// steps of which one writes a storage that the other touches, the first stays the first.
StepPlan OrderForFusion(StepPlan plan);

// The plan that a step on a GPU launches: ordered for fusion, and with values made again (rematerialize.h) unless it needs more
// memory then. Without `fuse` the plan as it is.
StepPlan PlanLaunches(StepPlan plan, bool fuse);

// The groups of two steps and more, in order; those of bodies are not among them. Keeps pointers into the plan.
std::vector<CudaGroup> FindCudaGroups(const StepPlan& plan);

}  // namespace meshwork
