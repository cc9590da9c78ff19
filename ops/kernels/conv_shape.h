// The sizes of a convolution, for its rows and their kernels.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "meshwork/ir/attrs.h"
#include "meshwork/ir/sliding.h"
#include "meshwork/ir/type.h"

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

// The spatial sizes of a filter w: [filter…, c / groups, o].
std::vector<int64_t> FilterSizes(const Shape& w);

// The sizes of a conv or of its gradients with these attributes. x: [n, in…, ci], w: [filter…, ci / groups,
// co], y: [n, out…, co].
ConvShape ConvShapeOf(const Attrs& attrs, const Shape& x, const Shape& w, const Shape& y);

}  // namespace meshwork
