// Runs the kernel of a row by itself, on a block of its operands and results or on all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/ir/sample.h"
#include "meshwork/layout/layout.h"
#include "meshwork/tools/check/double_tensor.h"

namespace meshwork {

// The input of one device: its operands, the blocks of operands and results, and the sample with the whole
// types.
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

// The results of the row's kernel, with its work cut into `cuts` parts, in memory that was filled with `fill`
// bytes. There is room behind operands and results, in case a kernel takes the whole tensor for the block.
// Error: the kernel writes there.
absl::StatusOr<std::vector<DoubleTensor>> RunKernel(const KernelCall& call, int64_t cuts = 1,
                                                    std::byte fill = {});

}  // namespace meshwork
