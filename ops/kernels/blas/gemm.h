// Matrix product of row-major blocks on one thread, by the library that is faster for the type.
#pragma once

#include <cstdint>
#include <span>

#include "meshwork/base/bfloat16.h"

namespace meshwork {

// op(a): [m,k], op(b): [k,n]; a transposed operand is stored [k,m] ([n,k]). Rows of a, b and c lie lda, ldb
// and ldc elements apart.
struct GemmShape {
  bool transpose_a = false, transpose_b = false;
  int64_t m, n, k;
  int64_t lda, ldb, ldc;
  bool accumulate = false;  // the sum is added to what c holds
};

// The offsets of a term's operands, in elements.
struct GemmTerm {
  int64_t a = 0, b = 0;
};

// c: [m,n] (+)= Σ_terms op(a + term.a) · op(b + term.b), in the order of the terms; long sums of floats are added up in
// parts (long_sum.h). Callers run it on threads whose OpenMP and OpenBLAS thread count is one (see WorkerPool). Sizes
// may be zero; without terms or with k = 0 the sum is zeros.
void Gemm(const GemmShape& shape, std::span<const GemmTerm> terms, const float* a, const float* b, float* c);
void Gemm(const GemmShape& shape, std::span<const GemmTerm> terms, const double* a, const double* b,
          double* c);
// Computed in float, a tile at a time in buffers of the thread; every element is rounded once. The values are
// the same on all CPUs on which those of Gemm of float are the same. REQUIRES: !shape.accumulate.
void Gemm(const GemmShape& shape, std::span<const GemmTerm> terms, const BFloat16* a, const BFloat16* b,
          BFloat16* c);

}  // namespace meshwork
