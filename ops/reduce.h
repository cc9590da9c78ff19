// Reductions. Part of ops/ops.h, which says what holds for all ops.
#pragma once

#include <cstdint>

#include "meshwork/ir/dim_list.h"
#include "meshwork/ir/graph.h"
#include "meshwork/ir/operand.h"

namespace meshwork {

// Reductions over `dims`, all if none are named (ir/dim_list.h); keep_dims leaves them with size 1. A
// reduction of no elements is the identity; a mean of no elements is NaN. bf16 is summed and multiplied in
// float and rounded once; whole numbers wrap around.
Value ReduceSum(const Operand& x, const DimList& dims = ALL_DIMS, bool keep_dims = false);
Value ReduceMean(const Operand& x, const DimList& dims = ALL_DIMS, bool keep_dims = false);
// NaN if an element is NaN. Elements equal to the extremum share its gradient equally.
Value ReduceMax(const Operand& x, const DimList& dims = ALL_DIMS, bool keep_dims = false);
Value ReduceMin(const Operand& x, const DimList& dims = ALL_DIMS, bool keep_dims = false);
// The gradient of a factor is the product of the others, even if some are 0; it is NaN or 0 where the product
// of the nonzero factors over- or underflows. A gradient of the gradient treats zeros as constants.
Value ReduceProd(const Operand& x, const DimList& dims = ALL_DIMS, bool keep_dims = false);
// x: bools.
Value ReduceAll(const Operand& x, const DimList& dims = ALL_DIMS, bool keep_dims = false);
Value ReduceAny(const Operand& x, const DimList& dims = ALL_DIMS, bool keep_dims = false);
// Index (i32) of the largest (smallest) element along `dim`; ties go to the lowest index, the first NaN wins. A
// negative dim counts from the end. Error: no element, or more than an i32 counts.
Value Argmax(const Operand& x, int64_t dim);
Value Argmin(const Operand& x, int64_t dim);

}  // namespace meshwork
