// Runs the kernel of a row by itself, on a block of its operands and results or on all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/check/double_tensor.h"
#include "meshwork/ir/sample.h"
#include "meshwork/layout/layout.h"

namespace meshwork {

// What one device gets: its operands, where they and the results lie, and the wholes.
struct KernelCall {
  const Sample* sample;
  Attrs attrs;  // with the local result shape
  std::vector<DoubleTensor> in;
  std::vector<Block> in_blocks;
  std::vector<Type> out;
  std::vector<Block> out_blocks;
};

// One device alone. REQUIRES: `in` are of the sample's types; the sample outlives the call.
KernelCall WholeCall(const Sample& sample, const std::vector<DoubleTensor>& in);

// The results of the row's kernel, its work cut into `cuts` parts, in memory that was full of `fill` bytes.
// Operands and results have room behind them for what a kernel would touch that took the whole for the block.
// Error: it writes there.
absl::StatusOr<std::vector<DoubleTensor>> RunKernel(const KernelCall& call, int64_t cuts = 1,
                                                    std::byte fill = {});

}  // namespace meshwork
