// Pieces of the text of kernels that read a table of parts (parts.h).
#pragma once

#include <string>
#include <string_view>

#include "meshwork/ir/kernel.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/kernels/cuda/cuda_kernel.h"
#include "meshwork/ops/kernels/cuda/sweep.h"

namespace meshwork::cuda {

// Lines that find the part of the block. All threads run `before` first, and `behind` afterwards. Declares `block`,
// `part` and `begin`, the first element of the part that the block has.
std::string LinesThatFindPart(std::string_view before, std::string_view behind);

// A kernel of kSweepThreads threads. Operands of the spec from `first_common` on are one for all parts.
CudaKernel KernelOfParts(std::string_view name, const KernelSpec& spec, size_t first_common,
                         const std::string& body);

// The work of a part on its elements.
Sweep SweepOfPart(const OpRow& row, const KernelSpec& spec);

// The kernel of gathers along dim 0.
CudaKernel LookupsOfParts(const KernelSpec& spec, int64_t alignment);

}  // namespace meshwork::cuda
