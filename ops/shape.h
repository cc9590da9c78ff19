// Shapes and layouts. Part of ops/ops.h, which says what holds for all ops.
#pragma once

#include <cstdint>
#include <vector>

#include "meshwork/ir/dim_list.h"
#include "meshwork/ir/graph.h"
#include "meshwork/ir/operand.h"

namespace meshwork {

// Shapes. Negative dims count from the end: -1 is the last one.
// Result dim dims[i] takes operand dim i; x is repeated along the other dims. An operand dim of size 1
// stretches.
Value BroadcastTo(const Operand& x, const Shape& shape, const std::vector<int64_t>& dims);
// x in row-major order under another shape. One size may be -1: it follows from the others. Errors: another number of
// elements; two sizes of -1, or one beside a size of 0.
Value Reshape(const Operand& x, const Shape& shape);
// [n,a,b] -> [n, a · b]: the dims from `dim` on as one. Error: no such dim.
Value Flatten(const Operand& x, int64_t dim = 1);
// x without `dims`, which have size 1: [4,1,6] without [1] is [4,6]. Unlike a Reshape, it says
// which dim of the result is which dim of x, so that every dim stays sharded as it is.
Value Squeeze(const Operand& x, const DimList& dims);
// x with dims of size 1 at `dims` of the result: [4,6] with [1] is [4,1,6], with [-1] it is [4,6,1].
Value ExpandDims(const Operand& x, const DimList& dims);
// Result dim i is operand dim permutation[i].
Value Transpose(const Operand& x, const std::vector<int64_t>& permutation);
// The number of elements of x along `dims`, as a scalar.
Value DimensionSize(const Operand& x, const DimList& dims, DType dtype);
// x, with its layout pinned where it is computed; the compiler chooses OPEN dims.
// Errors: x is pinned already, a layout that does not fit.
Value WithLayout(const Value& x, const LayoutSpec& layout, CallSite loc = CallSite::Current());
// x, which the compiler may gather whole on every device, however large it is, if an op needs it whole. See
// CompileOptions::replication_budget.
Value AllowGather(const Value& x);
// x taken to a layout in the middle of a program; the compiler chooses OPEN dims, MATCH dims are sharded as
// x's.
Value Relayout(const Operand& x, const LayoutSpec& layout);

}  // namespace meshwork
