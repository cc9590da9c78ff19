// Convolutions of channels-last blocks on one thread: by oneDNN in f32, by meshwork's own loops in f64 and
// where negative padding crops.
//
//   x: [n, in…, ci]   w: [filter…, ci / groups, co]   y: [n, out…, co]
//   y[r] = Σ_k x[r * stride - low + k * dilation] w[k], where x beyond its ends is 0
//
// oneDNN computes on channels-last tensors as fast as on its own blocked ones; only filters are converted to
// its layout, once per call, in memory of the thread. bf16 is converted to f32 a few images at a time, and
// rounded once.
#pragma once

#include "meshwork/ir/kernel.h"
#include "meshwork/ops/kernels/conv_shape.h"

namespace meshwork {

// Operands x, w; result y. Units are images.
Kernel ConvKernel(DType dtype, const ConvShape& shape);
// Operands y (a gradient), w; result x: [n, in…, ci], of which a windowed dim is a block. Units are images.
Kernel ConvInputGradKernel(DType dtype, const ConvShape& shape);
// Operands x, y (a gradient); result w. Units are slices of the output channels in f32 and bf16, rows of the
// filter in f64.
Kernel ConvFilterGradKernel(DType dtype, const ConvShape& shape);

}  // namespace meshwork
