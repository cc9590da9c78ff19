// One op on many tensors, the parts, in one launch that reads a table of them:
//
//   kernel = MakeCudaParts(row, spec, alignment)      the text is one for parts of all sizes
//   kernel(table, count, per_block, operands that are one for all parts)
//
// A part takes as many blocks of threads as it needs, per_block elements each, one part behind the other. Parts are updates of
// weights (adam_update, adagrad_update), casts, lookups in tables (gather along dim 0), and lazy updates of tables from what scatter_add would
// add up for them (MakeCudaRowUpdates).
// Pure functions, thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "meshwork/ir/kernel.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/kernels/cuda/cuda_kernel.h"

namespace meshwork {

inline constexpr size_t kMostPointersOfPart = 8;

// The rows of a table that a part has, and the number of indices.
struct CudaTableRows {
  int64_t rows = 0;       // in memory
  int64_t first_row = 0;  // the number of the first of them in the whole table
  int64_t last_row = 0;   // of the whole table: larger indices count as this
  int64_t count = 0;      // of the indices
};

// A part, as a table of the device has it: the struct Part of the kernels' text.
struct CudaPart {
  int64_t first_block = 0, end_block = 0;       // of the launch
  int64_t elements = 0;                         // of its first result
  CudaTableRows table = {};                     // of lookups and of updates of rows
  uint64_t pointers[kMostPointersOfPart] = {};  // addresses of its operands, then of its results
};

// The number of operands, the first ones, that belong to the part; the others are shared by all parts. nullopt: the row
// has no such kernel. Only gathers along dim 0 have one.
std::optional<size_t> CudaOperandsOfPart(const OpRow& row);

// Computes what MakeCudaKernel's kernels compute, bit by bit. Operand 1 of an update, the gradient, may be bf16 or f16
// while the others are f32; it is read as if it had been cast. `alignment`: of the pointers of all parts, in bytes. The
// kernel's `blocks` and `pointers` are 0. REQUIRES: CudaOperandsOfPart(row).
CudaKernel MakeCudaParts(const OpRow& row, const KernelSpec& spec, int64_t alignment = 1);

// per_block for a launch whose parts have `elements` elements in all.
int64_t ElementsPerPartBlock(int64_t elements);

// Whether an update of this row changes nothing where the gradient is 0.
bool IsLazyUpdate(const OpRow& row, const Attrs& attrs);

// One kernel for two steps: a scatter_add along dim 0, and the lazy update whose gradient it makes. The gradient is not stored.
// If results lie over the operands that they replace, only rows that an index names are read and written; if they lie
// elsewhere, the other rows are copied. The pointers of a part: the operands of the update, but the scatter's updates
// in place of the gradient; the indices; the results. Computes what the two kernels compute, bit by bit. REQUIRES:
// IsLazyUpdate; one dtype.
CudaKernel MakeCudaRowUpdates(const OpRow& row, const KernelSpec& spec, const KernelSpec& scatter);
// per_block for a launch whose parts have `rows` rows of `inner` elements in all.
int64_t ElementsPerRowUpdatesBlock(int64_t rows, int64_t inner);

}  // namespace meshwork
