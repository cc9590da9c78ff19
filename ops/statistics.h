// Softmax, variances, norms of vectors: written in terms of rows. Part of ops/ops.h, which says what holds
// for all ops.
#pragma once

#include <cstdint>

#include "meshwork/ir/dim_list.h"
#include "meshwork/ir/graph.h"
#include "meshwork/ir/operand.h"

namespace meshwork {

// Composites: written in terms of rows.
// In `dim`s, negative numbers count from the end: -1 is the last dim.
// bf16 is computed in f32 and rounded once, at the end.

// exp(x) / sum(exp(x)) along `dim`, shifted by the maximum, so that logits of any size are fine. An element
// of -inf has share 0 (a mask); NaN where all are -inf or one is +inf or NaN. Sharded along `dim`: two
// all-reduces of one element per row, and one for the gradient. Errors: no such dim.
Value Softmax(const Operand& x, int64_t dim = -1);
// log(Softmax(x, dim)), without computing the share first: exact even where the share is 0.
Value LogSoftmax(const Operand& x, int64_t dim = -1);
// Softmax over several dims at once: all elements of a slice along them add up to 1.
Value SoftmaxOver(const Operand& x, const DimList& dims);
// log(sum(exp(x))) over dims, shifted by the maximum.
Value LogSumExp(const Operand& x, const DimList& dims = ALL_DIMS, bool keep_dims = false);
// sum((x - mean)²) / (n - correction), the mean first; correction = 1 is the estimate from a sample.
Value Variance(const Operand& x, const DimList& dims = ALL_DIMS, double correction = 0,
               bool keep_dims = false);
Value StandardDeviation(const Operand& x, const DimList& dims = ALL_DIMS, double correction = 0,
                        bool keep_dims = false);
// The norm over dims of order 1 (sum of sizes), 2 (root of the sum of squares; gradient 0 at 0) or infinity
// (largest size).
Value Norm(const Operand& x, const DimList& dims = ALL_DIMS, double order = 2, bool keep_dims = false);

}  // namespace meshwork
