// Convolutions by plain loops: for all sizes in f64, and for cases that oneDNN does not support.
//
// Every element is summed in an order that depends on the shape alone; gradients by the filter in f32 in parts, as
// long_sum.h says.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>

#include "meshwork/ops/kernels/blas/convolution.h"
#include "meshwork/ops/kernels/long_sum.h"

namespace meshwork {

// A convolution with exactly three spatial dims, the first of size 1 where it has fewer.
struct DirectConv {
  explicit DirectConv(const ConvShape& shape);

  int64_t groups, in_channels, out_channels;  // channels of one group
  std::array<ConvShape::Dim, kMaxSpatialDims> dims;

  int64_t x_row() const { return groups * in_channels; }
  int64_t y_row() const { return groups * out_channels; }

  // `images` images each.
  template <typename T>
  void Forward(int64_t images, const T* x, const T* w, T* y) const;
  template <typename T>
  void InputGrad(int64_t images, const T* y, const T* w, T* x) const;
  // Rows [begin, end) of w, which are [taps · in_channels, y_row()].
  template <typename T>
  void FilterGrad(int64_t images, int64_t begin, int64_t end, const T* x, const T* y, T* w) const;
};

inline DirectConv::DirectConv(const ConvShape& shape)
    : groups(shape.groups),
      in_channels(shape.in_channels / shape.groups),
      out_channels(shape.out_channels / shape.groups) {
  dims.fill({1, 1, {}});
  for (size_t d = 0; d < shape.dims.size(); ++d)
    dims[kMaxSpatialDims - shape.dims.size() + d] = shape.dims[d];
}

// Calls f(index) for all positions of sizes n, in order.
template <typename F>
void ForEachPosition(const std::array<int64_t, 3>& n, F&& f) {
  for (int64_t a = 0; a < n[0]; ++a)
    for (int64_t b = 0; b < n[1]; ++b)
      for (int64_t c = 0; c < n[2]; ++c) f(std::array<int64_t, 3>{a, b, c});
}

// The position of a result's tap in x, or -1 if it is padding.
inline int64_t PositionOfTap(const std::array<ConvShape::Dim, 3>& dims, const std::array<int64_t, 3>& result,
                             const std::array<int64_t, 3>& tap) {
  int64_t position = 0;
  for (size_t d = 0; d < 3; ++d) {
    const Sliding& s = dims[d].sliding;
    const int64_t i = result[d] * s.stride - s.low + tap[d] * s.dilation;
    if (i < 0 || i >= dims[d].in) return -1;
    position = position * dims[d].in + i;
  }
  return position;
}

// The result that sees x at `at` by this tap, or -1.
inline int64_t ResultOfTap(const std::array<ConvShape::Dim, 3>& dims, const std::array<int64_t, 3>& at,
                           const std::array<int64_t, 3>& tap) {
  int64_t position = 0;
  for (size_t d = 0; d < 3; ++d) {
    const Sliding& s = dims[d].sliding;
    const int64_t i = at[d] + s.low - tap[d] * s.dilation;
    if (i < 0 || i % s.stride != 0 || i / s.stride >= dims[d].out) return -1;
    position = position * dims[d].out + i / s.stride;
  }
  return position;
}

inline std::array<int64_t, 3> InSizes(const std::array<ConvShape::Dim, 3>& d) {
  return {d[0].in, d[1].in, d[2].in};
}
inline std::array<int64_t, 3> OutSizes(const std::array<ConvShape::Dim, 3>& d) {
  return {d[0].out, d[1].out, d[2].out};
}
inline std::array<int64_t, 3> FilterSizes(const std::array<ConvShape::Dim, 3>& d) {
  return {d[0].sliding.filter, d[1].sliding.filter, d[2].sliding.filter};
}

template <typename T>
void DirectConv::Forward(int64_t images, const T* x, const T* w, T* y) const {
  for (int64_t n = 0; n < images; ++n) {
    ForEachPosition(OutSizes(dims), [&](const auto& result) {
      std::fill_n(y, y_row(), T(0));
      const T* w_tap = w;
      ForEachPosition(FilterSizes(dims), [&](const auto& tap) {
        const int64_t at = PositionOfTap(dims, result, tap);
        for (int64_t g = 0; at >= 0 && g < groups; ++g) {
          for (int64_t i = 0; i < in_channels; ++i) {
            const T factor = x[at * x_row() + g * in_channels + i];
            const T* from = w_tap + i * y_row() + g * out_channels;
            T* to = y + g * out_channels;
            for (int64_t o = 0; o < out_channels; ++o) to[o] += factor * from[o];
          }
        }
        w_tap += in_channels * y_row();
      });
      y += y_row();
    });
    x += dims[0].in * dims[1].in * dims[2].in * x_row();
  }
}

// Adds up eight sums, so that the loop vectorises.
template <typename T>
T DotProduct(const T* a, const T* b, int64_t n) {
  constexpr int kLanes = 8;
  std::array<T, kLanes> lanes = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int l = 0; l < kLanes; ++l) lanes[l] += a[i + l] * b[i + l];
  for (int l = 0; i + l < n; ++l) lanes[l] += a[i + l] * b[i + l];
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  return lanes[0];
}

template <typename T>
void DirectConv::InputGrad(int64_t images, const T* y, const T* w, T* x) const {
  for (int64_t n = 0; n < images; ++n) {
    ForEachPosition(InSizes(dims), [&](const auto& position) {
      std::fill_n(x, x_row(), T(0));
      const T* w_tap = w;
      ForEachPosition(FilterSizes(dims), [&](const auto& tap) {
        const int64_t at = ResultOfTap(dims, position, tap);
        for (int64_t g = 0; at >= 0 && g < groups; ++g)
          for (int64_t i = 0; i < in_channels; ++i)
            x[g * in_channels + i] += DotProduct(y + at * y_row() + g * out_channels,
                                                 w_tap + i * y_row() + g * out_channels, out_channels);
        w_tap += in_channels * y_row();
      });
      x += x_row();
    });
    y += dims[0].out * dims[1].out * dims[2].out * y_row();
  }
}

template <typename T>
void DirectConv::FilterGrad(int64_t images, int64_t begin, int64_t end, const T* x, const T* y, T* w) const {
  const std::array<int64_t, 3> filter = FilterSizes(dims);
  const int64_t x_image = dims[0].in * dims[1].in * dims[2].in * x_row();
  [[maybe_unused]] double* const sums = std::is_same_v<T, float> ? ThreadSums(y_row()) : nullptr;
  for (int64_t row = begin; row < end; ++row) {
    const int64_t t = row / in_channels, i = row % in_channels;
    const std::array<int64_t, 3> tap = {t / filter[2] / filter[1], t / filter[2] % filter[1], t % filter[2]};
    T* to = w + row * y_row();
    std::fill_n(to, y_row(), T(0));
    [[maybe_unused]] LongSum sum(sums, 1, y_row(), kTermsOfPart);
    const T* from = y;
    for (int64_t n = 0; n < images; ++n) {
      ForEachPosition(OutSizes(dims), [&](const auto& result) {
        const int64_t at = PositionOfTap(dims, result, tap);
        if constexpr (std::is_same_v<T, float>)
          if (at >= 0 && sum.Begins(1, to, y_row())) std::fill_n(to, y_row(), T(0));
        for (int64_t g = 0; at >= 0 && g < groups; ++g) {
          const T factor = x[n * x_image + at * x_row() + g * in_channels + i];
          for (int64_t o = g * out_channels; o < (g + 1) * out_channels; ++o) to[o] += factor * from[o];
        }
        from += y_row();
      });
    }
    if constexpr (std::is_same_v<T, float>) sum.Finish(to, y_row());
  }
}

}  // namespace meshwork
