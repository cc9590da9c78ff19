// Matrix product of dense row-major blocks on one thread, by the library that is faster for the shape.
#pragma once

#include <cstdint>

namespace meshwork {

// c: [m,n] = op(a) · op(b), op(a): [m,k], op(b): [k,n]; a transposed operand is stored [k,m] ([n,k]).
// Callers run it on threads whose OpenMP and OpenBLAS thread count is one (see WorkerPool).
// Sizes may be zero; k = 0 gives zeros.
void Gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const float* a, const float* b,
          float* c);
void Gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const double* a,
          const double* b, double* c);

}  // namespace meshwork
