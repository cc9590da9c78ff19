// Shapes and layouts. Part of ops/ops.h, which says what holds of all.
#pragma once

#include <cstdint>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/ir/operand.h"

namespace meshwork {

// Shapes.
// Result dim dims[i] takes operand dim i; the others repeat it. An operand dim of size 1 stretches.
Value BroadcastTo(const Operand& x, const Shape& shape, const std::vector<int64_t>& dims);
Value Reshape(const Operand& x, const Shape& shape);
// [n,a,b] -> [n, a · b]: the dims from `dim` on as one. Error: no such dim.
Value Flatten(const Operand& x, int64_t dim = 1);
// Without `dims`, which are of size 1 and increase: [4,1,6] without [1] is [4,6]. Unlike a Reshape it says
// which dim of the result is which of x's, so that every dim stays sharded as it is.
Value Squeeze(const Operand& x, const std::vector<int64_t>& dims);
// With dims of size 1 at `dims` of the result, which increase: [4,6] with [1] is [4,1,6].
Value ExpandDims(const Operand& x, const std::vector<int64_t>& dims);
// Result dim i is operand dim permutation[i].
Value Transpose(const Operand& x, const std::vector<int64_t>& permutation);
// The number of elements of x along `dims`, as a scalar.
Value DimensionSize(const Operand& x, const std::vector<int64_t>& dims, DType dtype);
// x, whose layout is pinned where it is computed; OPEN dims are the compiler's to choose.
// Errors: x is pinned already, a layout that does not fit.
Value WithLayout(const Value& x, const LayoutSpec& layout, CallSite loc = CallSite::Current());
// x, which the compiler may gather whole on every device, however large it is, where an op needs it so. See
// CompileOptions::replication_budget.
Value AllowGather(const Value& x);
// x taken to a layout in the middle of a program; OPEN dims are the compiler's to choose, MATCH dims lie as
// x's do.
Value Relayout(const Operand& x, const LayoutSpec& layout);

}  // namespace meshwork
