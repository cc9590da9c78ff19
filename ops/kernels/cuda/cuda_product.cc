#include "meshwork/ops/kernels/cuda/cuda_product.h"

#include <algorithm>
#include <limits>

#include "meshwork/ops/kernels/cuda/cuda_convolution.h"
#include "meshwork/ops/kernels/cuda/leading.h"
#include "meshwork/ops/kernels/matmul_sizes.h"

namespace meshwork {
namespace {

using cuda::Walk;

constexpr int64_t kMostSize = std::numeric_limits<int32_t>::max();
constexpr int64_t kMostBatch = 65535;  // of a grid's third dim
constexpr int64_t kMostCalls = 64;

Walk::Dim Taken(std::vector<Walk::Dim>& dims, size_t d) {
  Walk::Dim taken = std::move(dims[d]);
  dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(d));
  return taken;
}

int64_t CountOf(const std::vector<Walk::Dim>& dims) {
  int64_t count = 1;
  for (const Walk::Dim& dim : dims) count *= dim.size;
  return count;
}

// Element `index` along the dims, in tensor `t`.
int64_t OffsetOf(const std::vector<Walk::Dim>& dims, size_t t, int64_t index) {
  int64_t offset = 0;
  for (size_t d = dims.size(); d-- > 0; index /= dims[d].size)
    offset += index % dims[d].size * dims[d].strides[t];
  return offset;
}

// x: [positions, c], y: [positions, o], w: [c, o].
std::optional<CudaProduct> ProductOf(const CudaConvolution& convolution) {
  if (!convolution.is_product()) return std::nullopt;
  const int64_t positions = convolution.in_positions(), c = convolution.in_channels,
                o = convolution.out_channels;
  CudaProduct product{.dtype = convolution.dtype, .calls = {{}}};
  switch (convolution.kind) {
    case CudaConvolution::Kind::kForward: product.m = positions, product.k = c, product.n = o; break;
    case CudaConvolution::Kind::kInputGrad:
      product.m = positions, product.k = o, product.n = c, product.transpose_b = true;
      break;
    case CudaConvolution::Kind::kFilterGrad:
      product.m = c, product.k = positions, product.n = o, product.transpose_a = true;
      break;
  }
  return product;
}

}  // namespace

std::optional<CudaProduct> MakeCudaProduct(const OpRow& row, const KernelSpec& spec) {
  const DType dtype = spec.results[0].local.dtype;
  if (const std::optional<CudaConvolution> convolution = MakeCudaConvolution(row, spec))
    return ProductOf(*convolution);
  if (row.name != "matmul" || !IsFloat(dtype)) return std::nullopt;
  const MatmulSizes sizes =
      MatmulSizesOf(spec.attrs, spec.operands[0].local.shape, spec.operands[1].local.shape);
  CudaProduct product{.dtype = dtype,
                      .m = sizes.m,
                      .n = sizes.n,
                      .k = sizes.k,
                      .transpose_a = sizes.transpose_a,
                      .transpose_b = sizes.transpose_b};
  const auto& [kept, summed] = cuda::LeadingDimsOf(spec);
  if (product.m * product.n * product.k * NumElements(kept.sizes) * NumElements(summed.sizes) == 0)
    return std::nullopt;
  Shape results = cuda::RowMajorStrides(kept.sizes);
  for (int64_t& stride : results) stride *= product.m * product.n;
  const Shape strides[] = {kept.a, kept.b, results};
  std::vector<Walk::Dim> kept_dims = Walk::Of(kept.sizes, strides).dims, summed_dims = summed.Merged().dims;

  // Rows of a that are all multiplied by one matrix are one matrix.
  if (!kept_dims.empty() && !product.transpose_a) {
    const Walk::Dim& last = kept_dims.back();
    if (last.strides[0] == product.m * product.k && last.strides[1] == 0)
      product.m *= Taken(kept_dims, kept_dims.size() - 1).size;
  }
  // Sums along k go on where the next matrices' rows follow.
  if (!summed_dims.empty() && product.transpose_a && !product.transpose_b) {
    const Walk::Dim& last = summed_dims.back();
    if (last.strides[0] == product.k * sizes.m && last.strides[1] == product.k * product.n)
      product.k *= Taken(summed_dims, summed_dims.size() - 1).size;
  }
  if (!kept_dims.empty()) {
    const auto largest = std::max_element(kept_dims.begin(), kept_dims.end(),
                                          [](const auto& x, const auto& y) { return x.size < y.size; });
    const Walk::Dim batch = Taken(kept_dims, static_cast<size_t>(largest - kept_dims.begin()));
    product.batch = batch.size;
    product.stride_a = batch.strides[0];
    product.stride_b = batch.strides[1];
    product.stride_d = batch.strides[2];
  }
  const int64_t terms = CountOf(summed_dims), blocks = CountOf(kept_dims);
  if (std::max({product.m, product.n, product.k}) > kMostSize || product.batch > kMostBatch ||
      terms > kMostCalls || blocks > kMostCalls / terms || (dtype == BF16 && terms > 1))
    return std::nullopt;
  for (int64_t block = 0; block < blocks; ++block)
    for (int64_t term = 0; term < terms; ++term)
      product.calls.push_back({.a = OffsetOf(kept_dims, 0, block) + OffsetOf(summed_dims, 0, term),
                               .b = OffsetOf(kept_dims, 1, block) + OffsetOf(summed_dims, 1, term),
                               .d = OffsetOf(kept_dims, 2, block),
                               .adds = term > 0});
  return product;
}

}  // namespace meshwork
