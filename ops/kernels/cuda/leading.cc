#include "meshwork/ops/kernels/cuda/leading.h"

#include <algorithm>

namespace meshwork::cuda {

LeadingDims LeadingDimsOf(const KernelSpec& spec) {
  LeadingDims leading;
  const Shape &a = spec.operands[0].local.shape, &b = spec.operands[1].local.shape;
  const size_t dims_a = a.size() - 2, dims_b = b.size() - 2, dims = std::max(dims_a, dims_b);
  const Shape dense_a = RowMajorStrides(a), dense_b = RowMajorStrides(b);
  for (size_t d = 0; d < dims; ++d) {
    const bool has_a = d + dims_a >= dims, has_b = d + dims_b >= dims;
    const int64_t size_a = has_a ? a[d + dims_a - dims] : 1, size_b = has_b ? b[d + dims_b - dims] : 1;
    const bool sums = d < spec.reduced.size() ? spec.reduced[d] : spec.attrs.Get<bool>("sum_batch");
    Leading& to = sums ? leading.summed : leading.kept;
    to.sizes.push_back(size_a == 1 ? size_b : size_a);
    to.a.push_back(size_a == 1 ? 0 : dense_a[d + dims_a - dims]);
    to.b.push_back(size_b == 1 ? 0 : dense_b[d + dims_b - dims]);
  }
  return leading;
}

}  // namespace meshwork::cuda
