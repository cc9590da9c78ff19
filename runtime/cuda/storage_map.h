// Places the storages of a step plan in the memory of one device whose steps run one after the other, on a stream.
//
//   const StorageMap map = MapStorages(plan);      // offsets in one arena; bodies of loops lie in it, too
//
// Temporaries share memory where they are in use at different times (ir/plan/memory_plan.h). Images of host tensors are
// temporaries here: those of inputs are in use from the start of the step, those of outputs until its end. Pure
// function, thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "meshwork/runtime/exec/executor_options.h"
#include "meshwork/runtime/plan/step_plan.h"

namespace meshwork {

struct StorageMap {
  struct Place {
    // kBound: the storage is a DTensor's, or, in a body, lies where its argument lies.
    enum class Kind : uint8_t { kArena, kConstant, kBound };
    Kind kind = Kind::kBound;
    int64_t offset = 0;  // bytes
  };
  std::vector<Place> places;                    // per storage of the plan
  std::vector<std::vector<StorageMap>> bodies;  // per step of the plan: of a NestedStep, one for each body
  int64_t arena_bytes = 0;                      // of all temporaries, including those of bodies
  int64_t constant_bytes = 0;                   // of values that are computed once, likewise
};

// `fuse`: the groups of FindCudaGroups (runtime/cuda/cuda_fusion.h) are one step each, and values that are used only
// within a group have no memory. Law: storages that are in use at the same time, in a body or not, do not overlap.
StorageMap MapStorages(const StepPlan& plan, bool fuse = false);

// The memory that a step of the plan would allocate (Backend::PlanMemory).
ExecutorMemory PlanCudaMemory(StepPlan plan, bool fuse);

}  // namespace meshwork
