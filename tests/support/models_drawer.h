// Draws other parts of models: convolutions, pooling, attention.
#pragma once

#include <algorithm>
#include <vector>

#include "support/places_drawer.h"

namespace meshwork {

class ModelsDrawer : protected PlacesDrawer {
 protected:
  explicit ModelsDrawer(uint64_t seed) : PlacesDrawer(seed) {}

  // ---- Each returns what it made, an invalid value if it could not.

  Value Convolved() {
    const Value x = Images();
    if (!x.valid()) return {};
    const int64_t channels = x.shape().back(), filters = 1 + static_cast<int64_t>(Below(3));
    if (x.type().num_elements() * filters > kMostElements * channels) return {};
    ConvOptions options;
    Shape filter;
    for (int d = 1; d + 1 < x.rank(); ++d) {
      const auto size = 1 + static_cast<int64_t>(Below(3)), dilation = 1 + static_cast<int64_t>(Below(2));
      filter.push_back(size);
      options.window.strides.push_back(1 + static_cast<int64_t>(Below(2)));
      options.window.dilation.push_back(dilation);
      // Enough padding around an image for the filter to fit into it.
      options.window.padding.low.push_back(static_cast<int64_t>(Below(3)));
      options.window.padding.high.push_back((size - 1) * dilation);
    }
    options.window.padding.kind = WindowPadding::Kind::kExplicit;
    if (Chance(30)) return Transposed(x, filter, filters, options);
    if (Chance(25)) options.groups = channels;
    filter.push_back(channels / options.groups);
    filter.push_back(options.groups * filters);
    if (options.groups * filters * x.type().num_elements() > kMostElements * channels) return {};
    return Conv(x, NewArgument(F64, filter), options);
  }

  Value Pooled() {
    const Value x = Images();
    if (!x.valid() || HasTies(NumbersOf(x))) return {};
    Ints window;
    WindowOptions options;
    for (int d = 1; d + 1 < x.rank(); ++d) {
      window.push_back(
          1 + static_cast<int64_t>(Below(static_cast<uint64_t>(std::min<int64_t>(3, x.shape()[d])))));
      options.strides.push_back(1 + static_cast<int64_t>(Below(2)));
    }
    if (Chance(50)) options.padding = WindowPadding::Same();
    if (Chance(50)) return MaxPool(x, window, options);
    return AvgPool(x, window, options, Chance(50));
  }

  Value Attended() {
    const Value q = OfRank(4);
    if (!q.valid()) return {};
    const Shape shape = q.shape();  // arguments move what it would refer to
    const int64_t keys = Pick(sizes()), dim = 1 + static_cast<int64_t>(Below(3));
    if (shape[0] * keys * shape[2] * std::max(shape[3], dim) > kMostElements) return {};
    return Attention(q, NewArgument(F64, {shape[0], keys, shape[2], shape[3]}),
                     NewArgument(F64, {shape[0], keys, shape[2], dim}), {.causal = Chance(50)});
  }

 private:
  // x has the shape that a convolution of this function's result would give: [n, spatial…, filters' channels].
  Value Transposed(const Value& x, Shape filter, int64_t channels, ConvOptions options) {
    options.window.padding = WindowPadding::Valid();
    for (size_t d = 0; d < filter.size(); ++d) {
      // No more than 400 elements, whatever the strides.
      if (x.shape()[d + 1] > 5) return {};
    }
    if (x.type().num_elements() > 60) return {};
    filter.push_back(channels);
    filter.push_back(x.shape().back());
    return ConvTranspose(x, NewArgument(F64, filter), options);
  }

  // [n, spatial…, c].
  Value Images() { return OfRank(3 + static_cast<int>(Below(2))); }

  // A real of this rank, by dims of size 1 where it has fewer.
  Value OfRank(int rank) {
    Value x = Tensor();
    if (x.rank() > rank || x.type().num_elements() == 0) return {};
    while (x.rank() < rank) x = ExpandDims(x, {Chance(50) ? int64_t{0} : static_cast<int64_t>(x.rank())});
    return x;
  }
};

}  // namespace meshwork
