// Lower bounds of times on a GPU: the toolkit's own product, and the driver's copy.
#pragma once

#include "absl/status/statusor.h"
#include "benchmarks/gpu_step/options.h"
#include "benchmarks/gpu_step/works.h"

namespace meshwork {

// cublasLtMatmul called directly, bf16 [size,size] by [size,size], on the same numbers' distribution. Errors: there is
// no GPU; the build has no CUDA.
absl::StatusOr<GpuWork> CublasFloor(const GpuOptions& options);
// cuMemcpyDtoDAsync of 1.5 times as many elements, which moves as many bytes as the chain.
absl::StatusOr<GpuWork> CopyFloor(const GpuOptions& options);

}  // namespace meshwork
