// Elements and slices at places that the program computes. Part of ops/ops.h, which says what holds for all
// ops.
#pragma once

#include <cstdint>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/ir/operand.h"

namespace meshwork {

// Elements by index. indices: i32 or i64, of any shape; an index below 0 counts as 0, one beyond the end as
// the last. A negative `dim` counts from the end.
// x: [a,n,b] at dim 1, indices: [i,j] -> [a,i,j,b], that is x[:, indices, :]. Sharded along n, each device
// looks up the indices it owns, and the result is their sum.
Value Gather(const Operand& x, const Operand& indices, int64_t dim);
// The transpose of Gather. updates: [a,i,j,b], indices: [i,j] -> zeros of `shape` [a,n,b] to which
// updates[:, i, j, :] is added at [:, indices[i,j], :], in the order of the indices. Numbers only.
Value ScatterAdd(const Operand& updates, const Operand& indices, const Shape& shape, int64_t dim);

// The largest (least) of the updates at each place; at a place without updates -∞ (∞), or the least (largest)
// whole number. Equal updates share the gradient equally.
Value ScatterMax(const Operand& updates, const Operand& indices, const Shape& shape, int64_t dim);
Value ScatterMin(const Operand& updates, const Operand& indices, const Shape& shape, int64_t dim);
// x: [a,n,b], updates: [a,i,j,b], indices: [i,j] -> x with [:, indices[i,j], :] replaced by updates[:, i, j,
// :]. If a place has several updates, the last one in the order of the indices stays; only this update has a
// gradient.
Value ScatterUpdate(const Operand& x, const Operand& updates, const Operand& indices, int64_t dim);
// x: [a,n,b], indices: [a,m,b] -> [a,m,b], that is x[a, indices[a,i,b], b] (NumPy's take_along_axis).
Value TakeAlongDim(const Operand& x, const Operand& indices, int64_t dim);
// The transpose of TakeAlongDim: zeros of `shape` [a,n,b] to which updates[a,i,b] is added at
// [a, indices[a,i,b], b], in the order of i.
Value ScatterAddAlongDim(const Operand& updates, const Operand& indices, const Shape& shape, int64_t dim);
// x: [batch.., n1,..,nk, rest..], indices: [batch.., places.., k] -> [batch.., places.., rest..]: the slices
// of x at k indices, one for each of the k dims after the batch_dims. Errors: more indices than dims.
Value GatherNd(const Operand& x, const Operand& indices, int64_t batch_dims = 0);
// The transpose of GatherNd: zeros of `shape`, to which the updates are added at the places, in their order.
Value ScatterNdAdd(const Operand& updates, const Operand& indices, const Shape& shape,
                   int64_t batch_dims = 0);
// x[.., start : start + size, ..] along `dims`, which increase (negative ones count from the end); start:
// i32 or i64, one number per dim, clamped so that all of the window lies in x (StableHLO's dynamic_slice). Or
// start: [b,dims], for x: [b,..] whose dim 0 is not among `dims`: each of the b has a start of its own. Error:
// a window larger than x.
Value DynamicSlice(const Operand& x, const Operand& start, const std::vector<int64_t>& dims,
                   const std::vector<int64_t>& sizes);
// x with the window of the update's shape from `start` on replaced by the update. Errors: DynamicSlice's.
Value DynamicUpdateSlice(const Operand& x, const Operand& update, const Operand& start,
                         const std::vector<int64_t>& dims);

}  // namespace meshwork
