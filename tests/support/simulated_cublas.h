// The descriptors of the simulated cuBLASLt (simulated_cuda.h), and the products that it computes.
#pragma once

#include <cublasLt.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace meshwork {

struct SimulatedOperation {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cudaDataType_t scale = CUDA_R_32F;
  bool transpose_a = false, transpose_b = false;
  bool operator==(const SimulatedOperation&) const = default;
};

// Matrices in column-major order.
struct SimulatedLayout {
  cudaDataType_t type = CUDA_R_32F;
  int64_t rows = 0, columns = 0;
  int64_t column_stride = 0;  // in elements, as the next
  int64_t batch = 1, batch_stride = 0;
  bool operator==(const SimulatedLayout&) const = default;

  // The bytes from the first element of the first matrix to the end of the last element of the last one.
  int64_t bytes() const;
};

struct SimulatedPreference {
  uint64_t workspace_bytes = 0;
  uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
  std::array<uint32_t, 4> alignments = {256, 256, 256, 256};  // of a, b, c, d
};

// d = alpha * op(a) * op(b) + beta * c.
struct SimulatedProduct {
  SimulatedOperation operation;
  SimulatedLayout a, b, c, d;
  bool operator==(const SimulatedProduct&) const = default;

  int64_t k() const { return operation.transpose_a ? a.rows : a.columns; }
  // Sums in double, and rounds once; with TF32, rounds the operands, too. c is not read if beta is 0.
  void Play(double alpha, const std::byte* a_data, const std::byte* b_data, double beta,
            const std::byte* c_data, std::byte* d_data) const;
};

}  // namespace meshwork
