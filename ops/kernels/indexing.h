// Shared by the families that read and write elements by index (gather, scatter, along_dim).
//
// Indices are i32 or i64 and clamped to the dim. They form a tensor of any shape, whose dims take the place
// of the dim that they index: x: [a,n,b] at dim 1 by indices: [i,j] is [a,i,j,b].
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/type.h"

namespace meshwork {

// The sizes of x: [outer, n, inner] around `dim`; `count` indices take n's place.
struct IndexedSizes {
  int64_t outer, n, inner, count;
};
IndexedSizes SizesOf(const Shape& x, const Shape& indices, int64_t dim);

// The shape of x with the indices' dims in the place of `dim`.
Shape IndexedShape(const Shape& x, const Shape& indices, int64_t dim);

// Errors: indices that are not whole numbers, a dim that does not exist, or that is empty while indices are
// not.
absl::Status CheckIndices(const Type& indices, const Type& x, int64_t dim);

// Error: `updates` are not as x with the indices' dims in the place of `dim`.
absl::Status CheckIndexedUpdates(const Type& updates, const Type& indices, const Type& x, int64_t dim);

// The result of an op with the attributes `shape` and `dim`, whose operands are updates and indices: of this shape, and
// the updates' dtype. Errors: CheckIndices', CheckIndexedUpdates'; the shape is too large.
absl::StatusOr<std::vector<Type>> InferScatter(const OpView& view);

// The letters of x, "anb", of the indices, "AB", and of x with the indices' letters in n's place, "aABb".
struct IndexedTerms {
  std::string x, indices, indexed;
};
IndexedTerms TermsOf(const Type& x, const Type& indices, int64_t dim);

// For an op that adds the elements of its first operand to others, or compares them with these: one operation per
// element.
double ScatterFlops(const OpView& view);

// Calls f with a zero of the C++ type of indices.
template <typename F>
auto DispatchIndex(DType dtype, F&& f) {
  return dtype == I64 ? f(int64_t{}) : f(int32_t{});
}

}  // namespace meshwork
