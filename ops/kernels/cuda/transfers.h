// The kernels that move data between the buffers of one GPU, as text: runtime/plan/transfer.h defines the transfers. One
// launch does any number of transfers, which it reads from tables.
#pragma once

#include <cstdint>
#include <string>

#include "meshwork/ir/type.h"
#include "meshwork/layout/layout.h"
#include "meshwork/ops/kernels/cuda/cuda_kernel.h"

namespace meshwork {

// A transfer, as a table of the device has it: the struct Transfer of the kernels' text.
struct CudaTransfer {
  int64_t first_block = 0;  // of the launch: blocks are shared out in the order of the table
  int64_t elements = 0;
  // The region: runs of `run` elements, from these offsets on, along num_dims dims. The counts and strides of the dims
  // (in the source, in the target) lie in the table of numbers from `dims` on, major to minor.
  int64_t run = 1, from_offset = 0, to_offset = 0;
  int64_t num_dims = 0, dims = 0;
  uint64_t to = 0;          // an address
  int64_t num_sources = 0;  // 0: `fill` is stored
  int64_t sources = 0;      // where their addresses lie in the table of numbers
  uint64_t fill = 0;        // the element's bytes, the first one lowest
};
// Elements that a block of threads moves, and the threads that it has.
inline constexpr int64_t kElementsPerTransferBlock = 1024, kTransferThreads = 256;
// The number of blocks of a transfer of `elements` elements.
inline int64_t TransferBlocks(int64_t elements) {
  return (elements + kElementsPerTransferBlock - 1) / kElementsPerTransferBlock;
}

// Moves elements of `size` bytes, or repeats one. Parameters: the transfers, their count as a long long, and the
// numbers. REQUIRES: size is 1, 2, 4 or 8.
CudaKernel CudaMoveKernel(int64_t size);
// Reduces the sources in their order, each result rounded, as the CPU does. The same parameters. REQUIRES: `and` and `or` are
// of bools.
CudaKernel CudaReduceKernel(DType dtype, ReduceOp op);

}  // namespace meshwork
