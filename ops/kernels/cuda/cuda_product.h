// A row `matmul`, or a convolution whose filter has one position, as calls of a library that multiplies dense matrices,
// such as cuBLASLt.
//
//   matmul f32[8,4,16] f32[16,32]                       one call: [32,16] * [16,32]; b is the same for all of the batch
//   matmul f32[8,16,4] f32[8,16,32], transpose_a, sum   one call: [4,128] * [128,32]; the sum goes on along k
//   matmul f32[8,4,16] f32[8,16,32]                     one call, with a batch of 8
//   matmul f32[8,4,16] f32[8,16,32], sum                eight calls, each of which adds to what is there
//   conv f32[8,7,7,64] f32[1,1,64,256]                  one call: [392,64] * [64,256]; its gradients alike
//
// Nothing here needs CUDA. Plain data; a pure function, thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "meshwork/ir/kernel.h"
#include "meshwork/ir/row.h"

namespace meshwork {

// d[m,n] = op(a)[m,k] * op(b)[k,n]. Matrices are row-major and dense; op transposes or not. The strides between the matrices
// of a batch are in elements; 0: one matrix for the whole batch.
struct CudaProduct {
  DType dtype = F32;  // of all three; bf16 is summed in f32
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  int64_t batch = 1;
  int64_t stride_a = 0, stride_b = 0, stride_d = 0;
  // Calls run one after the other. a, b, d: the places of a call's first matrices, in elements from the start.
  struct Call {
    int64_t a = 0, b = 0, d = 0;
    bool adds = false;  // to what is there
    bool operator==(const Call&) const = default;
  };
  std::vector<Call> calls = {};

  bool operator==(const CudaProduct&) const = default;
};

// nullopt if the op is better computed by other means: it is neither a `matmul` nor a convolution of one position, of
// stride 1, without padding and groups, nor a gradient of one; it has whole numbers; it is empty, or a sum of nothing;
// it is too large for a library's numbers; it would take more than 64 calls; or several calls would round a bf16 sum
// between them.
std::optional<CudaProduct> MakeCudaProduct(const OpRow& row, const KernelSpec& spec);

}  // namespace meshwork
