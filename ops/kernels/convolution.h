// Convolutions of channels-last blocks on one thread: oneDNN's in f32, by loops of our own in f64 and
// where negative padding crops.
//
//   x: [n, in…, ci]   w: [filter…, ci / groups, co]   y: [n, out…, co]
//   y[r] = Σ_k x[r * stride - low + k * dilation] w[k], where x beyond its ends is 0
//
// oneDNN computes on channels-last tensors as fast as on its own blocked ones; only filters are taken to its
// layout, once per call, into memory of the thread. bf16 is taken to f32 a few images at a time, and rounded
// once.
#pragma once

#include <cstdint>

#include "ops/kernel.h"
#include "ops/sliding.h"

namespace meshwork {

// The sizes of one convolution, or of the gradient of one.
struct ConvShape {
  struct Dim {
    int64_t in, out;  // of x, of y
    Sliding sliding;
  };
  int64_t batch = 1, groups = 1;
  int64_t in_channels = 1, out_channels = 1;  // of all groups
  absl::InlinedVector<Dim, kMaxSpatialDims> dims;

  int64_t in_positions() const;
  int64_t out_positions() const;
  int64_t taps() const;  // the positions of a filter
  int64_t x_image() const { return in_positions() * in_channels; }
  int64_t y_image() const { return out_positions() * out_channels; }
  int64_t w_size() const { return taps() * (in_channels / groups) * out_channels; }
};

// Operands x, w; result y. Units are images.
Kernel ConvKernel(DType dtype, const ConvShape& shape);
// Operands y (a gradient), w; result x: [n, in…, ci], of which a windowed dim is a block. Units are images.
Kernel ConvInputGradKernel(DType dtype, const ConvShape& shape);
// Operands x, y (a gradient); result w. Units are slices of the output channels in f32 and bf16, rows of the
// filter in f64.
Kernel ConvFilterGradKernel(DType dtype, const ConvShape& shape);

}  // namespace meshwork
