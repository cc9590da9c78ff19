// QR of a matrix by products of matrices, by all members of a team together.
//
// Householder's reflections, 128 columns at a time (Schreiber and Van Loan, SIAM J. Sci. Stat. Comput. 10, 1989): the
// reflections of a panel are the columns of V, and their product is I - V T Vᵀ, which is applied to the columns right
// of the panel by matrix products. Then Q is made from the last panel to the first (LAPACK's geqrf and orgqr). Signs
// are LAPACK's: an element of r's diagonal has the opposite sign of the column's first element.
//
//   columns  0      j   j+128      n
//            ┌──────┬─────┬────────┐
//            │ r    │ r   │ r      │
//            │      ├─────┼────────┤ j    the panel is reduced column by column, its rows shared out in blocks; then
//            │ V of │panel│trailing│      each slice of the trailing columns takes W = -Tᵀ (Vᵀ A), A += V W,
//            │before│     │ A      │      by whoever is free
//            └──────┴─────┴────────┘ m
//
// The cuts of the work depend on the shape alone, and sums are added up in the order of the blocks, so the result does
// not depend on the team. It depends on the library's products, which may round differently on another kind of CPU.
//
// Columns are scaled by powers of two, so that no square overflows, and r's columns are scaled back.
#pragma once

#include <cstdint>

#include "meshwork/ir/kernel.h"

namespace meshwork {

// Whether the matrix is large enough for products of blocks to be faster than the loops of small_matrices.h.
bool IsBlockedQr(int64_t m, int64_t n);

// x: [m,n] = q · r, q: [m,k], r: [k,n], k the smaller of m and n; row-major, none of them overlaps another. All members
// of the team call it. Throws std::bad_alloc. REQUIRES: IsBlockedQr(m, n); libraries have one thread (WorkerPool).
void BlockedQr(const float* x, int64_t m, int64_t n, float* q, float* r, Team* team);
void BlockedQr(const double* x, int64_t m, int64_t n, double* q, double* r, Team* team);

}  // namespace meshwork
