// Chains of ops whose kernel is compared with those of the single ops.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "meshwork/ir/kernel.h"
#include "meshwork/ir/type.h"
#include "meshwork/layout/block.h"
#include "meshwork/ops/kernels/cuda/cuda_kernel.h"
#include "support/cuda_player.h"

namespace meshwork {

using ChainBytes = std::vector<std::byte>;
using ChainInts = std::vector<int64_t>;

// A chain over operands of the given types.
struct TriedChain {
  struct Op {
    std::string_view name;
    Attrs attrs;
    std::vector<CudaChainOperand> operands;
  };
  std::vector<Type> types;
  std::vector<Op> ops;
  std::vector<int> stored;
};

inline CudaChainOperand Given(int index) { return {false, index}; }
inline CudaChainOperand Of(int op) { return {true, op}; }

// Specs of the ops. Not to be copied: `ops` points into it.
struct ChainSpecs {
  std::vector<KernelSpec> of;
  std::vector<CudaChainOp> ops;
  std::vector<Block> blocks;  // of the results

  // `is_chain`: all results have the shape of all operands together.
  explicit ChainSpecs(const TriedChain& chain, bool is_chain = true);
};

// Runs a kernel of one launch. `tensors`: operands, then results. `block`: the result's, if the kernel takes blocks.
void LaunchChain(PlayedKernels& kernels, const CudaKernel& kernel, std::vector<ChainBytes*> tensors,
                 const Block& block = {});

enum class ChainKind { kChain, kRows, kColumns };

// The shared memory that a kernel of rows may use, and whether it uses some.
struct SharedMemory {
  int64_t bytes = 0;
  bool is_used = false;
};
inline constexpr int64_t kAllShared = 227 << 10;  // that an H100 has

// Expects the kernel of all ops to give the bits of the single ops' kernels, with aligned pointers and with others.
void TryChain(const TriedChain& chain, ChainKind kind, const SharedMemory& shared = {});

}  // namespace meshwork
