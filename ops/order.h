// Cumulative ops, sorting, counting. Part of ops/ops.h, which says what holds for all ops.
#pragma once

#include <cstdint>

#include "meshwork/ir/graph.h"
#include "meshwork/ir/operand.h"

namespace meshwork {

// These ops run along one dim, counted from the end if it is negative; the others stay sharded as they are.
// If the dim is sharded, ops that have a blockwise form (ops/blockwise.h) gather one summary per block; the
// others gather the dim.

// For each element, the sum (product, maximum, minimum) of all elements up to it. `reverse`: from it to the
// last one. `exclusive`: without the element itself (0, 1, -∞ and ∞ where no element is left). bf16 is summed
// and multiplied in float. The gradient of a product is right even if some factors are 0; the gradient of a
// maximum goes to the first element that equals the maximum.
Value Cumsum(const Operand& x, int64_t dim, bool exclusive = false, bool reverse = false);
Value Cumprod(const Operand& x, int64_t dim, bool exclusive = false, bool reverse = false);
Value Cummax(const Operand& x, int64_t dim, bool exclusive = false, bool reverse = false);
Value Cummin(const Operand& x, int64_t dim, bool exclusive = false, bool reverse = false);
// h[i] = a[i] h[i-1] + b[i], from h[0] = b[0] on; with `reverse` from the last. a and b are reals of one
// type.
Value LinearRecurrence(const Operand& a, const Operand& b, int64_t dim, bool reverse = false);
// The elements in order, and the indices (i32) that they had along the dim.
struct Ordered {
  Value values, indices;
};
// Stable, ascending or descending; NaN is larger than every number. Error: more elements than an i32 counts.
Ordered Sort(const Operand& x, int64_t dim, bool descending = false);
// The k largest, the largest first; of equal elements the one with the lowest index first, NaN before all.
// Errors: Sort's; k below 0 or above the size.
Ordered TopK(const Operand& x, int64_t k, int64_t dim);

// Sums over segments. x: [rows..,d..], segments: [rows..], the segment of each row, in [0, count) ->
// [count,d..]: the sum of the rows of each segment. This is ScatterAdd along dim 0; for extrema use
// ScatterMax and ScatterMin.
Value SegmentSum(const Operand& x, const Operand& segments, int64_t count);
// x: whole [n] -> i32[size], how many elements are 0, 1, …, size - 1; others are not counted.
Value Bincount(const Operand& x, int64_t size);
// The distinct values of x: [n], n > 0, in order, and how often each occurs (i32); only the first `size`
// values. The number of distinct values depends on the data, but types cannot: if there are fewer than
// `size`, values and counts end with zeros. Each NaN is a value of its own.
struct UniqueResult {
  Value values, counts;
};
UniqueResult UniqueCounts(const Operand& x, int64_t size);
// predictions: [..,c], targets: whole [..] -> bool [..]: whether fewer than k predictions of the row are
// larger than the target's. False where the target's prediction is not finite, or the target is not in [0,
// c).
Value InTopK(const Operand& predictions, const Operand& targets, int64_t k);
// The indices of Sort.
Value ArgSort(const Operand& x, int64_t dim, bool descending = false);

}  // namespace meshwork
