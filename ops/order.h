// Cumulative ops, sorting, counting. Part of ops/ops.h, which says what holds of all.
#pragma once

#include <cstdint>

#include "meshwork/ir/graph.h"
#include "meshwork/ir/operand.h"

namespace meshwork {

// Along one dim, which is whole on every device; the others stay sharded as they are.

// Sums, products, maxima and minima of all elements up to each; with `reverse` from each to the last, with
// `exclusive` without the element itself (0, 1, -∞ and ∞ where none is left). bf16 is summed and multiplied
// in float. The gradient of a factor holds if some are 0; that of a maximum goes to the first element that is
// it.
Value Cumsum(const Operand& x, int64_t dim, bool exclusive = false, bool reverse = false);
Value Cumprod(const Operand& x, int64_t dim, bool exclusive = false, bool reverse = false);
Value Cummax(const Operand& x, int64_t dim, bool exclusive = false, bool reverse = false);
Value Cummin(const Operand& x, int64_t dim, bool exclusive = false, bool reverse = false);
// h[i] = a[i] h[i-1] + b[i], from h[0] = b[0] on; with `reverse` from the last. a and b are reals of one
// type.
Value LinearRecurrence(const Operand& a, const Operand& b, int64_t dim, bool reverse = false);
// What is in order, and the indices (i32) that its elements had along the dim.
struct Ordered {
  Value values, indices;
};
// Stable, ascending or descending; NaN is larger than every number. Error: more elements than an i32 counts.
Ordered Sort(const Operand& x, int64_t dim, bool descending = false);
// The k largest, the largest first; of equal ones that of the lowest index, NaN before all. Errors: Sort's; k
// below 0 or above the size.
Ordered TopK(const Operand& x, int64_t k, int64_t dim);

// Updates whose rows are of segments: x: [rows..,d..], segments: [rows..], numbers of [0, count) -> [count,
// d..], the sums of the rows of each segment. That is ScatterAdd along dim 0; ScatterMax and ScatterMin for
// extrema.
Value SegmentSum(const Operand& x, const Operand& segments, int64_t count);
// x: whole [n] -> i32[size], how many elements are 0, 1, …, size - 1; others are not counted.
Value Bincount(const Operand& x, int64_t size);
// The values of x: [n], n > 0, in order, each once, and how often it is there (i32): the first `size` of
// them. How many there are depends on the numbers, and types do not: where there are fewer, values and counts
// end with zeros. A NaN is a value of its own.
struct UniqueResult {
  Value values, counts;
};
UniqueResult UniqueCounts(const Operand& x, int64_t size);
// predictions: [..,c], targets: whole [..] -> bool [..]: whether fewer than k predictions of the row are
// larger than that of the target. False where that is not finite or the target none of [0, c).
Value InTopK(const Operand& predictions, const Operand& targets, int64_t k);
// The indices of Sort.
Value ArgSort(const Operand& x, int64_t dim, bool descending = false);

}  // namespace meshwork
