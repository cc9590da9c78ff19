// Where the storages of a level lie on the GPU: in the step's own memory, in DTensors, where those outside of a loop lie.
//
// Pure functions, thread-safe.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "meshwork/runtime/cuda/cuda_api.h"
#include "meshwork/runtime/cuda/cuda_level.h"
#include "meshwork/runtime/dtensor.h"

namespace meshwork {

// Per storage of a level; 0: nowhere.
using CudaBases = std::vector<CUdeviceptr>;

// REQUIRES: a storage of the level.
CUdeviceptr AddressAt(const CudaBases& bases, const DeviceAddress& address);

// Where the memory begins that a step has for itself.
struct CudaOwnMemory {
  CUdeviceptr arena = 0, constants = 0;
};

// Of a step's plan. `feeds`, `outputs` and `staged` as for PreparedStep::Run; those that they have not are nowhere, and so
// are host outputs that nobody wants.
CudaBases BasesOfStep(const CudaLevel& root, const CudaOwnMemory& own, std::vector<DTensor>& variables,
                      std::span<const std::byte* const> feeds, std::span<std::byte* const> outputs,
                      std::span<const std::byte* const> staged);
// Of a loop's body. `outside`: of the level that has the loop.
CudaBases BasesOfBody(const CudaLevel& body, const CudaOwnMemory& own, const LoopLaunch& loop,
                      const CudaBases& outside);

}  // namespace meshwork
