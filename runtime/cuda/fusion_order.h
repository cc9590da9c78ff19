// The order in which steps that join to one kernel (cuda_group.h) follow each other.
//
//   1  one_hot i32[64] -> bool[64,10]                      moved to its first reader, 4
//   2  exp f32[64,10] -> f32[64,10]                        a group: 2, 1, 4
//   3  matmul f32[64,10] f32[10,8] -> f32[64,8]            behind it: nobody there waits for it
//   4  select bool[64,10] f32[64,10] f32[] -> f32[64,10]
//
// Pure functions, thread-safe.
#pragma once

#include <cstddef>
#include <vector>

#include "meshwork/runtime/plan/step_plan.h"

namespace meshwork {

// Moves steps that Spread to their first readers.
void MoveToReaders(StepPlan& plan);

// An order of the plan's steps, without those of bodies, in which steps of one kernel follow each other. Law: of two
// steps of which one writes a storage that the other touches, the first stays the first.
std::vector<size_t> FusedOrder(const StepPlan& plan);

}  // namespace meshwork
