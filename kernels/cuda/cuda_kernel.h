// Which kernel computes a row on a GPU: CUDA C++, as text.
//
// A kernel is made for one spec, so shapes, strides and attributes are constants in its text. Nothing here needs CUDA:
// who runs a kernel compiles the text, by NVRTC or, in tests, by the host's compiler (tests/support/cuda_player.h).
//
//   const CudaKernel kernel = *MakeCudaKernel(GetOp("relu"), spec);
//   source = CudaSourceOf({&kernel, 1});      // what NVRTC takes, with kCudaOptions
//   cuLaunchKernel(function of kernel.name, kernel.blocks, 1, 1, kernel.threads, 1, 1, 0, …)
//
// A kernel computes what the row's CPU kernel does (ir/kernel.h), in the same types: bf16 in f32. Its results do not
// depend on the order of threads, bit by bit. Operands and results are dense and aligned to their elements; what is
// beyond a block's extent is read as anything and written freely. A result may be one of the operands in memory
// where OpRow::in_place says so.
//
// Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "meshwork/ir/kernel.h"
#include "meshwork/ir/row.h"

namespace meshwork {

struct CudaKernel {
  // A name that kernels with the same text share, and no others: relu_0f3a….
  std::string name;
  // The kernel, which calls functions of CudaPrelude. Its parameters are pointers to the operands and the results, in
  // this order; then, for each result or operand of `block_arguments`, two long longs for each dim: where this
  // device's block starts in the global tensor, and its size.
  std::string source;
  // The grid and the blocks, along x. No blocks: there is nothing to compute, and no launch.
  int64_t blocks = 0;
  int64_t threads = 256;
  int64_t pointers = 0;
  struct BlockArgument {
    bool is_result;
    int index;
    bool operator==(const BlockArgument&) const = default;
  };
  std::vector<BlockArgument> block_arguments = {};
};

// How the text is to be compiled: products and sums are rounded one by one, as on the CPU.
inline constexpr std::string_view kCudaOptions[] = {"--std=c++17", "--fmad=false"};

// The functions that kernels call.
std::string_view CudaPrelude();
// One source for many kernels: the prelude, and each text once.
std::string CudaSourceOf(std::span<const CudaKernel> kernels);

// Whether MakeCudaKernel makes a kernel of the row, for every spec of it.
bool HasCudaKernel(const OpRow& row);
// The kernel of a row, or of instances stacked by OpRow::stack; nullopt if the row has none.
std::optional<CudaKernel> MakeCudaKernel(const OpRow& row, const KernelSpec& spec);

// What an op of a chain reads: an operand of the chain, or the result of an op before it.
struct CudaChainOperand {
  bool is_op;
  int index;
};
struct CudaChainOp {
  const OpRow* row;
  const KernelSpec* spec;
  std::vector<CudaChainOperand> operands;
};
// Whether the row can be an op of a chain: it has a scalar expression.
bool IsCudaChainOp(const OpRow& row);
// Elementwise ops as one kernel: intermediate values stay in registers, rounded to their dtypes, so that the results
// are those of kernels one by one. `stored`: the ops whose results the kernel writes, in the order of its pointers.
// REQUIRES: IsCudaChainOp of all rows; all ops have results of one local shape; operands are numbered without gaps.
CudaKernel MakeCudaChain(std::span<const CudaChainOp> ops, std::span<const int> stored);

}  // namespace meshwork
