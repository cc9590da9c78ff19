// Matrix product of dense row-major blocks on one thread, by the library that is faster for the shape.
#pragma once

#include <cstdint>

#include "base/bfloat16.h"

namespace meshwork {

// op(a): [m,k], op(b): [k,n]; a transposed operand is stored [k,m] ([n,k]).
struct GemmShape {
  bool transpose_a = false, transpose_b = false;
  int64_t m, n, k;
  // The product is summed over so many pairs of matrices, which follow each other in memory.
  int64_t terms = 1;
};

// c: [m,n] = Σ_terms op(a) · op(b). Callers run it on threads whose OpenMP and OpenBLAS thread count is one
// (see WorkerPool). Sizes may be zero; without terms or with k = 0 the result is zeros.
void Gemm(const GemmShape& shape, const float* a, const float* b, float* c);
void Gemm(const GemmShape& shape, const double* a, const double* b, double* c);
// In float, a tile at a time in buffers of the thread; every element is rounded once. The same values on
// every CPU that Gemm of float has them on.
void Gemm(const GemmShape& shape, const BFloat16* a, const BFloat16* b, BFloat16* c);

}  // namespace meshwork
