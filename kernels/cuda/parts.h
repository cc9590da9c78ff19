// One op on many tensors, the parts, in one launch that reads a table of them:
//
//   kernel = MakeCudaParts(row, spec, alignment)      the text is one for parts of all sizes
//   kernel(table, count, per_block, operands that are one for all parts)
//
// A part takes as many blocks of threads as it needs, per_block elements each, one part behind the other.
// Pure functions, thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "meshwork/ir/kernel.h"
#include "meshwork/ir/row.h"
#include "meshwork/kernels/cuda/cuda_kernel.h"

namespace meshwork {

inline constexpr size_t kMostPointersOfPart = 7;

// A part, as a table of the device has it: the struct Part of the kernels' text.
struct CudaPart {
  int64_t first_block = 0, end_block = 0;  // of the launch
  int64_t elements = 0;
  uint64_t pointers[kMostPointersOfPart] = {};  // addresses of its operands, then of its results
};

// How many operands, the first ones, are of the part; the others are one for all. nullopt: the row has no such kernel.
std::optional<size_t> CudaOperandsOfPart(const OpRow& row);

// Computes what MakeCudaKernel's kernels compute, bit by bit. Operand 1 of adam_update, the gradient, may be bf16 or f16 where
// the others are f32: as if it had been cast. `alignment`: of the pointers of all parts, in bytes. The kernel's `blocks` and
// `pointers` are 0. REQUIRES: CudaOperandsOfPart(row).
CudaKernel MakeCudaParts(const OpRow& row, const KernelSpec& spec, int64_t alignment = 1);

// per_block for a launch whose parts have so many elements in all.
int64_t ElementsPerPartBlock(int64_t elements);

}  // namespace meshwork
