// The families of kernels, each in a file of its own. A family lists generators by the names of rows.
#pragma once

#include <span>
#include <string_view>

#include "meshwork/ir/kernel.h"
#include "meshwork/ops/kernels/cuda/cuda_kernel.h"

namespace meshwork::cuda {

struct Generator {
  std::string_view op;  // the row's name
  CudaKernel (*make)(const OpRow& row, const KernelSpec& spec);
  // Instead of `make`: a kernel whose pointers must be multiples of `alignment`, or of less.
  CudaKernel (*make_aligned)(const OpRow& row, const KernelSpec& spec, int64_t alignment) = nullptr;
};

std::span<const Generator> MovementKernels();    // transposes, slices, joins
std::span<const Generator> GenerationKernels();  // constants, indices
std::span<const Generator> RandomKernels();
std::span<const Generator> ReductionKernels();
std::span<const Generator> ProductKernels();
std::span<const Generator> IndexingKernels();  // gathers and scatters
std::span<const Generator> ColumnKernels();    // along one dim: cumulative sums, orders
std::span<const Generator> OptimizerKernels();
std::span<const Generator> WindowKernels();  // pooling
std::span<const Generator> ConvolutionKernels();
std::span<const Generator> AttentionKernels();
std::span<const Generator> LinalgKernels();

// All of these.
std::span<const Generator> AllGenerators();

}  // namespace meshwork::cuda
