// What the contract test of CUDA kernels tries: applications of rows, with operands.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/ir/kernel.h"
#include "meshwork/ir/row.h"
#include "meshwork/kernels/cuda/cuda_kernel.h"
#include "support/simulated_compiler.h"

namespace meshwork {

using Bytes = std::vector<std::byte>;

// A row's kernel on one device.
struct CudaTrial {
  std::string name;
  const OpRow* row;
  KernelSpec spec;
  CudaKernel kernel;
  std::vector<Bytes> in;  // of the local types
  std::vector<Block> in_blocks, out_blocks;
};

// Of a row with samples: every sample; the first one in other dtypes and other sizes, with special values (NaN,
// infinities, zeros, the ends of whole numbers); stacked instances, also reduced ones; and blocks on several devices
// where the row reads blocks. Of local ops: specs written by hand. Each a second time if its kernel is another where all pointers
// are multiples of 16. REQUIRES: HasCudaKernel(row).
std::vector<CudaTrial> TrialsOf(const OpRow& row);

// The results of the row's CPU kernel.
std::vector<Bytes> RunOnCpu(const CudaTrial& trial);
// Those of its CUDA kernel. Errors: the launch's; the kernel writes beyond a result.
absl::StatusOr<std::vector<Bytes>> RunPlayed(SimulatedKernels& kernels, const CudaTrial& trial);

// Which element differs beyond the tolerance of its dtype, or "". `exactly`: bit by bit, but for NaNs. What is beyond the
// results' blocks is not looked at.
std::string DifferenceOf(const CudaTrial& trial, const std::vector<Bytes>& cpu,
                         const std::vector<Bytes>& cuda, bool exactly);

}  // namespace meshwork
