// Pieces of kernels that make each element of their results from the elements at its place in their operands: of one tensor, or
// of many in one launch (parts.h).
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
  // What all threads of a block run first, and behind a barrier, if there is a first. The other operands are called a<number>.
  std::string before, behind;
  // Makes v0, v1, …, the numbers that results get, from x0, x1, …, those that operands have.
  std::string lines;
};

// What a block does with `count` elements of operands from p0, p1, … on, and of results from q0, q1, … on, all of them
// multiples of `alignment`: where elements follow each other, a thread reads and writes 16 bytes of the widest type at once.
std::string LinesOfSweep(const Sweep& sweep, int64_t alignment);
// What all pointers of such lines must be multiples of: `alignment`, or less.
int64_t AlignmentOfSweep(const Sweep& sweep, int64_t alignment);

// How many elements a block takes if there are so many in all: a multiple of what its threads take at once.
int64_t ElementsPerSweepBlock(int64_t elements);

// The kernel of one application of the row.
CudaKernel KernelOfSweep(const OpRow& row, const KernelSpec& spec, const Sweep& sweep, int64_t alignment);

// Of adam_update. The gradient, operand 1, may be bf16 or f16 where the others are f32.
Sweep SweepOfAdam(const KernelSpec& spec);
// Of adagrad_update, likewise.
Sweep SweepOfAdagrad(const KernelSpec& spec);

}  // namespace meshwork::cuda
