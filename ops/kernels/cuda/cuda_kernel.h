// The kernel that computes a row on a GPU: CUDA C++, as text.
//
// A kernel is made for one spec, so shapes, strides and attributes are constants in its text. Nothing here needs CUDA:
// the caller compiles the text, by NVRTC or, in tests, by the host's compiler (tests/support/cuda_player.h).
//
//   const CudaKernel kernel = *MakeCudaKernel(GetOp("relu"), spec);
//   source = CudaSourceOf({&kernel, 1});      // what NVRTC takes, with kCudaOptions
//   cuLaunchKernel(function of kernel.name, kernel.blocks, 1, 1, kernel.threads, 1, 1, 0, …)
//
// A kernel computes what the row's CPU kernel does (ir/kernel.h), in the same types: bf16 in f32. Its results do not
// depend on the order of threads, bit by bit. Operands and results are dense; elements beyond a block's extent may hold
// anything and may be overwritten. A result may be one of the operands in memory where OpRow::in_place says so.
//
// `alignment`: all pointers are multiples of this number of bytes; 1: they are aligned to their elements only. From 16
// on kernels read and write several elements at once.
//
// Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "meshwork/ir/kernel.h"
#include "meshwork/ir/row.h"
#include "meshwork/layout/layout.h"

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
  int64_t shared_bytes = 0;  // dynamic shared memory of a block
  int64_t pointers = 0;
  int64_t alignment = 1;  // all pointers are multiples of it, and of their elements' sizes
  // For work in two kernels: this one writes `scratch_bytes` of scratch memory instead of the results, and the second
  // one then computes the results from the scratch. Pointers of the first: the operands, the scratch; of the second:
  // the scratch, the results. The scratch is aligned to 16 bytes.
  std::shared_ptr<const CudaKernel> second = nullptr;
  int64_t scratch_bytes = 0;
  bool is_long = false;  // its text takes seconds to compile, so that it is best begun before others
  struct BlockArgument {
    bool is_result;
    int index;
    bool operator==(const BlockArgument&) const = default;
  };
  std::vector<BlockArgument> block_arguments = {};
};

// Options for compiling the text: products and sums are rounded one by one, as on the CPU.
inline constexpr std::string_view kCudaOptions[] = {"--std=c++17", "--fmad=false"};

// The functions that kernels call.
std::string_view CudaPrelude();
// One source for many kernels and the second ones of them: the prelude, and each text once.
std::string CudaSourceOf(std::span<const CudaKernel> kernels);

// Whether MakeCudaKernel makes a kernel of the row, for every spec of it.
bool HasCudaKernel(const OpRow& row);
// The kernel of a row, or of instances stacked by OpRow::stack; nullopt if the row has none.
std::optional<CudaKernel> MakeCudaKernel(const OpRow& row, const KernelSpec& spec, int64_t alignment = 1);

// ---- Several ops as one kernel. Intermediate values stay in registers, rounded to their dtypes, so that the results
// equal those of separate kernels, bit by bit.

// An operand of an op in a chain: an operand of the chain, or the result of an earlier op. If ops read a pointer in
// different ways (one broadcasts it), it stands for several operands of the chain.
struct CudaChainOperand {
  bool is_op;
  int index;
};
struct CudaChainOp {
  const OpRow* row;
  const KernelSpec* spec;
  std::vector<CudaChainOperand> operands;
  const Block* block = nullptr;  // of the result, for a row that reads it
};
// Whether the row has a scalar expression.
bool IsCudaChainOp(const OpRow& row);
// The same, or the row is broadcast_to or one_hot: each element of the result is computed from one element of each
// operand, and from its place.
bool IsCudaElementwise(const OpRow& row);
// Strides of operand o of such an op along the dims of its result, in elements.
Shape CudaChainStrides(const OpRow& row, const KernelSpec& spec, size_t o);
// A reduction over all trailing dims of its operand, as rows: f32[8,64,256] over dim 2 is 512 rows of 256.
struct CudaRowsOf {
  int64_t rows, size;
};
// nullopt: the op is not such a reduction, or its kernel computes rows by other means than MakeCudaRows.
std::optional<CudaRowsOf> CudaRowsOfFold(const OpRow& row, const KernelSpec& spec);

// Elementwise ops as one kernel. `stored`: the ops whose results the kernel writes, in the order of its pointers. A result may
// lie where an operand of as many elements lies.
// REQUIRES: IsCudaElementwise of all rows; all results have the same number of elements, and so have the operands that
// are results of other ops; operands are numbered without gaps.
CudaKernel MakeCudaChain(std::span<const CudaChainOp> ops, std::span<const int> stored,
                         int64_t alignment = 1);

// The same with reductions of rows: softmax, norms, cross-entropies. A row belongs to a group of neighbouring threads,
// which reduce it in an order that depends on its size alone.
// REQUIRES: IsCudaElementwise or CudaRowsOfFold of all ops, one of which at least is a reduction, all of them of `rows` rows of
// `size` > 1 elements; results of the others have rows * size elements, or `rows`; an op whose result has rows * size reads a
// result of `rows` as one element for each row, any other op reads whole results of its own number of elements; operands
// are numbered without gaps.
// `shared_bytes`: how much dynamic shared memory the kernel may ask for.
CudaKernel MakeCudaRows(std::span<const CudaChainOp> ops, std::span<const int> stored, int64_t alignment = 1,
                        int64_t shared_bytes = 0);

// Whether the row is a reduction that leaves trailing dims of a multiple of 4 elements, as columns: f32[8,64,256] over dims 0
// and 1 is one of 512 rows to 256 columns.
bool IsCudaColumnFold(const OpRow& row, const KernelSpec& spec);
// Elementwise ops followed by such a reduction of one of their results, as one kernel, or as two (CudaKernel::second);
// then the second kernel computes the reduction's result. `stored` ends with the reduction.
// REQUIRES: as for MakeCudaChain, for all ops but the last, whose results have as many elements as the last op reduces;
// IsCudaColumnFold of the last op.
CudaKernel MakeCudaColumns(std::span<const CudaChainOp> ops, std::span<const int> stored,
                           int64_t alignment = 1);

}  // namespace meshwork
