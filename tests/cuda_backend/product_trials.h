// Trials of matrix products, and a class that runs them by cuBLASLt, on a simulated or a real GPU.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/runtime/cuda/cuda_buffer.h"
#include "meshwork/runtime/cuda/cuda_products.h"
#include "ops/kernels/cuda/trials.h"

namespace meshwork {

// The spec of a sample of `matmul`: "f32[3,4], f32[4,7]; transpose_b=true".
KernelSpec ProductSpec(const std::string& text);
CudaTrial ProductTrial(const std::string& text);
// Small products with all transposes, batches, broadcasts, sums and stacks, in f32, f64 and bf16. Their sums are exact.
std::vector<CudaTrial> AllProductTrials();
// The trial with numbers whose sums depend on the order of the terms.
CudaTrial OfSines(CudaTrial trial);

// Runs trials on the GPU of a context.
class ProductRunner {
 public:
  explicit ProductRunner(const std::shared_ptr<const CudaContext>& context,
                         MatmulPrecision precision = MatmulPrecision::kFull)
      : stream_(CudaStream::Create(context).value()), products_(context), precision_(precision) {}

  // The result; nullopt if cuBLASLt is not to compute it. Elements begin `offset` elements after the start of a buffer:
  // with 1 they are aligned only to their size. `captures`: runs as a graph.
  absl::StatusOr<std::optional<Bytes>> Run(const CudaTrial& trial, int64_t offset, bool captures = false);

 private:
  const std::shared_ptr<const CudaStream> stream_;
  CudaProducts products_;
  const MatmulPrecision precision_;
};

}  // namespace meshwork
