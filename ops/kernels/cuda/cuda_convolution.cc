#include "meshwork/ops/kernels/cuda/cuda_convolution.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "meshwork/ir/sliding.h"
#include "meshwork/ops/kernels/conv_shape.h"

namespace meshwork {
namespace {

constexpr int64_t kMostElements = std::numeric_limits<int32_t>::max();

std::optional<CudaConvolution::Kind> KindOf(std::string_view row) {
  if (row == "conv") return CudaConvolution::Kind::kForward;
  if (row == "conv_input_grad") return CudaConvolution::Kind::kInputGrad;
  if (row == "conv_filter_grad") return CudaConvolution::Kind::kFilterGrad;
  return std::nullopt;
}

ConvShape ShapeOf(CudaConvolution::Kind kind, const KernelSpec& spec) {
  const Shape& first = spec.operands[0].local.shape;
  const Shape& second = spec.operands[1].local.shape;
  const Shape& result = spec.results[0].local.shape;
  switch (kind) {
    case CudaConvolution::Kind::kForward: return ConvShapeOf(spec.attrs, first, second, result);
    case CudaConvolution::Kind::kInputGrad: return ConvShapeOf(spec.attrs, result, second, first);
    case CudaConvolution::Kind::kFilterGrad: break;
  }
  return ConvShapeOf(spec.attrs, first, result, second);
}

}  // namespace

int64_t CudaConvolution::taps() const {
  int64_t taps = 1;
  for (const Dim& dim : dims) taps *= dim.filter;
  return taps;
}

int64_t CudaConvolution::in_positions() const {
  int64_t positions = batch;
  for (const Dim& dim : dims) positions *= dim.in;
  return positions;
}

bool CudaConvolution::is_product() const {
  return groups == 1 && std::all_of(dims.begin(), dims.end(), [](const Dim& dim) {
           return dim.filter == 1 && dim.stride == 1 && dim.low == 0 && dim.high == 0;
         });
}

std::optional<CudaConvolution> MakeCudaConvolution(const OpRow& row, const KernelSpec& spec) {
  const std::optional<CudaConvolution::Kind> kind = KindOf(row.name);
  if (!kind.has_value()) return std::nullopt;
  const ConvShape shape = ShapeOf(*kind, spec);
  CudaConvolution made{.kind = *kind,
                       .dtype = spec.results[0].local.dtype,
                       .batch = shape.batch,
                       .in_channels = shape.in_channels,
                       .out_channels = shape.out_channels,
                       .groups = shape.groups};
  if (shape.dims.size() == 1) made.dims.emplace_back();
  for (const ConvShape::Dim& dim : shape.dims) {
    const Sliding& s = dim.sliding;
    if (s.windowed || s.low < 0 || s.high < 0) return std::nullopt;
    made.dims.push_back({.in = dim.in,
                         .out = dim.out,
                         .filter = s.filter,
                         .stride = s.stride,
                         .dilation = s.dilation,
                         .low = s.low,
                         .high = s.high});
  }
  const int64_t x = shape.batch * shape.x_image(), y = shape.batch * shape.y_image();
  const auto [least, most] = std::minmax({x, y, shape.w_size()});
  if (least == 0 || most > kMostElements) return std::nullopt;
  return made;
}

KernelSpec FilterTranspose(const CudaConvolution& convolution) {
  const int64_t o = convolution.out_channels, rest = convolution.filter_elements() / o;
  // The library's filter is [o, rest]; the row's is [rest, o].
  const Type own{convolution.dtype, {rest, o}}, library{convolution.dtype, {o, rest}};
  const bool comes_back = convolution.kind == CudaConvolution::Kind::kFilterGrad;
  const Type &from = comes_back ? library : own, &to = comes_back ? own : library;
  KernelSpec spec;
  spec.operands.push_back({from, from});
  spec.results.push_back({to, to});
  spec.attrs.Set("permutation", std::vector<int64_t>{1, 0});
  return spec;
}

}  // namespace meshwork
