// Pieces of kernels that compute each element of their results from the elements at the same place in their operands:
// for one tensor, or for many in one launch (parts.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "meshwork/ir/kernel.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/kernels/cuda/cuda_kernel.h"

namespace meshwork::cuda {

inline constexpr int64_t kSweepThreads = 256;

struct Sweep {
  std::vector<DType> in, out;  // of the operands and the results that have elements
  // before: lines that all threads of a block run first; if there are any, a barrier follows. behind: lines that they
  // run next. The other operands are called a<number>.
  std::string before, behind;
  // Computes v0, v1, …, the numbers of the results, from x0, x1, …, the numbers of the operands.
  std::string lines;
};

// The lines by which a block computes `count` elements of the operands from p0, p1, … on, and of the results from q0,
// q1, … on. All these pointers are multiples of `alignment`. If it allows, a thread reads and writes 16 bytes of the
// widest type at once.
std::string LinesOfSweep(const Sweep& sweep, int64_t alignment);
// The alignment that all pointers of such lines must have: `alignment`, or less.
int64_t AlignmentOfSweep(const Sweep& sweep, int64_t alignment);

// The number of elements that a block takes, if there are `elements` in all: a multiple of the elements that its
// threads take at once.
int64_t ElementsPerSweepBlock(int64_t elements);

// The kernel of one application of the row.
CudaKernel KernelOfSweep(const OpRow& row, const KernelSpec& spec, const Sweep& sweep, int64_t alignment);

// For adam_update. The gradient, operand 1, may be bf16 or f16 where the others are f32.
Sweep SweepOfAdam(const KernelSpec& spec);
// For adagrad_update, likewise.
Sweep SweepOfAdagrad(const KernelSpec& spec);

}  // namespace meshwork::cuda
