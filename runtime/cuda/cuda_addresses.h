// The addresses of a level's storages on the GPU: in the step's own memory, in DTensors or, for arguments of a loop's
// body, those of storages outside of the loop.
//
// Pure functions, thread-safe.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "meshwork/runtime/cuda/cuda_api.h"
#include "meshwork/runtime/cuda/cuda_level.h"
#include "meshwork/runtime/exec/dtensor.h"

namespace meshwork {

// Per storage of a level; 0: nowhere.
using CudaBases = std::vector<CUdeviceptr>;

// REQUIRES: a storage of the level.
CUdeviceptr AddressAt(const CudaBases& bases, const DeviceAddress& address);

// The beginnings of a step's own memory.
struct CudaOwnMemory {
  CUdeviceptr arena = 0, constants = 0;
};

// The addresses of a step's plan. `feeds`, `outputs` and `staged` as for PreparedStep::Run; storages that these lack,
// and host outputs that are not wanted, are nowhere.
CudaBases BasesOfStep(const CudaLevel& root, const CudaOwnMemory& own, std::vector<DTensor>& variables,
                      std::span<const std::byte* const> feeds, std::span<std::byte* const> outputs,
                      std::span<const std::byte* const> staged);
// The addresses of a loop's body. `outside`: those of the level that has the loop.
CudaBases BasesOfBody(const CudaLevel& body, const CudaOwnMemory& own, const LoopLaunch& loop,
                      const CudaBases& outside);

}  // namespace meshwork
