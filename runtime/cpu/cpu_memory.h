// The memory of this process, which also holds host tensors: uploads are copies.
#pragma once

#include <memory>

#include "meshwork/runtime/exec/memory.h"

namespace meshwork {

// The same object for all CPU backends of the process, so that they can share variables. Thread-safe.
std::shared_ptr<Memory> CpuMemory();

}  // namespace meshwork
