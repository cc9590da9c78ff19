// Slices, paddings, joins, reversals, rolls. Part of ops/ops.h, which says what holds for all ops.
#pragma once

#include <cstdint>
#include <vector>

#include "meshwork/ir/dim_list.h"
#include "meshwork/ir/graph.h"
#include "meshwork/ir/operand.h"

namespace meshwork {

// Slices. Every dim may stay sharded: along a sharded dim that is cut, padded or joined, devices exchange
// only the elements that their blocks of the result consist of. A negative `dim` counts from the end.
// x[start:limit:stride] per dim; stride defaults to 1. Errors: lists that are not one entry per dim, a
// start above its limit, a limit above the size, a stride below 1.
Value Slice(const Operand& x, const std::vector<int64_t>& start, const std::vector<int64_t>& limit,
            const std::vector<int64_t>& stride = {});
// The same along one dim; the others are left as they are.
Value SliceDim(const Operand& x, int64_t dim, int64_t start, int64_t limit, int64_t stride = 1);
// x with low[d] elements of `value` before it along dim d, high[d] after it and interior[d] between each
// two of its own; interior defaults to 0. A negative low or high crops instead, after the interior is laid.
// Errors: lists that are not one entry per dim, more cropped than there is, a value that the dtype lacks.
Value Pad(const Operand& x, const std::vector<int64_t>& low, const std::vector<int64_t>& high,
          double value = 0, const std::vector<int64_t>& interior = {});
// xs one after the other along `dim`; their other dims are equal.
Value Concat(const std::vector<Value>& xs, int64_t dim, CallSite loc = CallSite::Current());
// x backwards along each of `dims`.
Value Reverse(const Operand& x, const DimList& dims);
// x with element i along `dim` moved to i + shift; what leaves at one end comes in at the other.
Value Roll(const Operand& x, int64_t shift, int64_t dim);
// xs along a new dim of the result: n of [a,b], stacked at dim 1, are [a,n,b]; at dim -1 they are [a,b,n].
Value Stack(const std::vector<Value>& xs, int64_t dim, CallSite loc = CallSite::Current());
// `parts` slices of equal size along `dim`. Error: the size is no multiple of parts.
std::vector<Value> Split(const Operand& x, int64_t parts, int64_t dim);
// Slices of these sizes along `dim`. Error: they do not add up to its size.
std::vector<Value> SplitSizes(const Operand& x, const std::vector<int64_t>& sizes, int64_t dim);

}  // namespace meshwork
