// The tiling of attention by tensor cores: its cut into pieces of work. MakeCudaKernel takes the tiling that was
// measured to be fastest; benchmarks/gpu_attention.cc measures others.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "meshwork/ops/kernels/cuda/cuda_kernel.h"

namespace meshwork {

struct AttentionTiling {
  int64_t row_tiles;  // tiles of 16 queries (or keys) that a warp has; a block has 4 warps
  int64_t others;     // keys (queries) in shared memory at once, of which there are two stages: 16, 32, …
  int64_t chunk;      // of these in registers at once, in gradients; divides `others`
  int64_t at_once;    // blocks that a multiprocessor has registers for; ptxas spills what does not fit
  bool operator==(const AttentionTiling&) const = default;
};

// The tiling of MakeCudaKernel for "attention", "attention_grad_q" or "attention_grad_kv". `widest`: the larger of a
// head's dims in q and in v.
AttentionTiling DefaultAttentionTiling(std::string_view op, int64_t widest);
// The kernel with another tiling. nullopt: the spec cannot use tensor cores, or needs more than 48 KiB of shared
// memory.
std::optional<CudaKernel> MakeCudaAttention(const OpRow& row, const KernelSpec& spec,
                                            const AttentionTiling& tiling);

}  // namespace meshwork
