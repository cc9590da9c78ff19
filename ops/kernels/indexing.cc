#include "meshwork/ops/kernels/indexing.h"

#include "meshwork/base/status.h"
#include "meshwork/ir/builder.h"

namespace meshwork {

IndexedSizes SizesOf(const Shape& x, const Shape& indices, int64_t dim) {
  IndexedSizes sizes{1, x[dim], 1, NumElements(indices)};
  for (int64_t d = 0; d < static_cast<int64_t>(x.size()); ++d)
    if (d != dim) (d < dim ? sizes.outer : sizes.inner) *= x[d];
  return sizes;
}

Shape IndexedShape(const Shape& x, const Shape& indices, int64_t dim) {
  Shape shape(x.begin(), x.begin() + dim);
  shape.insert(shape.end(), indices.begin(), indices.end());
  shape.insert(shape.end(), x.begin() + dim + 1, x.end());
  return shape;
}

absl::Status CheckIndices(const Type& indices, const Type& x, int64_t dim) {
  if (!IsInteger(indices.dtype))
    return InvalidArgument("the indices are {}; they must be i32 or i64, cast them.", indices.ToString());
  MESHWORK_RETURN_IF_ERROR(CheckDim("dim", dim, x));
  if (x.shape[dim] == 0 && indices.num_elements() > 0)
    return InvalidArgument("dim {} of {} is empty; the indices {} have nothing to name.", dim, x.ToString(),
                           indices.ToString());
  return absl::OkStatus();
}

absl::Status CheckIndexedUpdates(const Type& updates, const Type& indices, const Type& x, int64_t dim) {
  const Type expected{x.dtype, IndexedShape(x.shape, indices.shape, dim)};
  if (updates == expected) return absl::OkStatus();
  return InvalidArgument("the updates are {}; for indices {} along dim {} of {} they must be {}.",
                         updates.ToString(), indices.ToString(), dim, x.ToString(), expected.ToString());
}

absl::StatusOr<std::vector<Type>> InferScatter(const OpView& view) {
  const Type &updates = view.operands[0], &indices = view.operands[1];
  const int64_t dim = view.attrs.Get<int64_t>("dim");
  const Type result{updates.dtype, ToShape(view.attrs.Get<std::vector<int64_t>>("shape"))};
  MESHWORK_RETURN_IF_ERROR(CheckSize(result));
  MESHWORK_RETURN_IF_ERROR(CheckIndices(indices, result, dim));
  MESHWORK_RETURN_IF_ERROR(CheckIndexedUpdates(updates, indices, result, dim));
  return std::vector<Type>{result};
}

IndexedTerms TermsOf(const Type& x, const Type& indices, int64_t dim) {
  IndexedTerms terms;
  for (int d = 0; d < indices.rank(); ++d) terms.indices += static_cast<char>('A' + d);
  for (int d = 0; d < x.rank(); ++d) {
    terms.x += static_cast<char>('a' + d);
    if (d == dim) terms.indexed += terms.indices;
    else terms.indexed += terms.x.back();
  }
  return terms;
}

double ScatterFlops(const OpView& view) { return static_cast<double>(view.operands[0].num_elements()); }

}  // namespace meshwork
