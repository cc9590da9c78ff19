// Trials for the contract test of CUDA kernels: applications of rows, with operands.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/ir/kernel.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/kernels/cuda/cuda_kernel.h"
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

// For a row with samples: every sample; the first one in other dtypes and sizes, with special values (NaN,
// infinities, zeros, the ends of whole numbers); stacked instances, also reduced ones; and blocks on several
// devices if the row reads blocks. For local ops: specs written by hand. Each again if its kernel differs
// where all pointers are multiples of 16. REQUIRES: HasCudaKernel(row).
std::vector<CudaTrial> TrialsOf(const OpRow& row);
// Reductions of many elements to few results, each by two kernels (CudaKernel::second). TrialsOf does not have them.
std::vector<CudaTrial> SplitTrials();

// The results of the row's CPU kernel.
std::vector<Bytes> RunOnCpu(const CudaTrial& trial);

inline constexpr size_t kGuardedAlignment = 64;
// Launches a kernel with these arguments: its pointers, then its block arguments.
using LaunchTrial = std::function<absl::Status(const CudaKernel& kernel, std::span<std::byte*> pointers,
                                               std::span<long long> places)>;

// One run of a trial's CUDA kernel, in memory that the caller has. REQUIRES: the trial outlives it.
class GuardedRun {
 public:
  // `offset`: bytes by which each tensor lies behind a multiple of kGuardedAlignment.
  explicit GuardedRun(const CudaTrial& trial, size_t offset = 0);

  // The images in memory, with guards around each: of the operands, of the results, and of scratch
  // memory if the kernel has a second one. The caller copies them to where the kernel runs, and
  // back.
  std::vector<Bytes> tensors;
  // `memory`: where each image lies, a multiple of kGuardedAlignment.
  absl::Status Launch(std::span<std::byte* const> memory, const LaunchTrial& launch);
  // Error: the kernel has written beyond a result.
  absl::StatusOr<std::vector<Bytes>> Results() const;

 private:
  const CudaTrial& trial_;
  const size_t begin_;  // of each tensor in its image
  std::vector<long long> places_;
};

// The results of the played CUDA kernel; operands and results begin `offset` bytes behind multiples of 64.
// Errors: the launch's; the kernel writes beyond a result.
absl::StatusOr<std::vector<Bytes>> RunPlayed(SimulatedKernels& kernels, const CudaTrial& trial,
                                             size_t offset = 0);

// The rows that compute on devices and have a CUDA kernel.
std::vector<const OpRow*> RowsWithCudaKernels();
// Whether the row's kernels make each element by the same operations in the same order as those of the CPU.
bool IsExactOnCuda(const OpRow& row);

// The element that differs beyond the tolerance of its dtype, or "". `exactly`: bit by bit, except NaNs. Padding
// behind the results' blocks is ignored. Elements below `least` may differ as `least` may; those of long sums by more.
std::string DifferenceOf(const CudaTrial& trial, const std::vector<Bytes>& cpu,
                         const std::vector<Bytes>& cuda, bool exactly, double least = 0.1);

}  // namespace meshwork
