#include "meshwork/ops/kernels/conv_shape.h"

namespace meshwork {

int64_t ConvShape::in_positions() const {
  int64_t count = 1;
  for (const Dim& d : dims) count *= d.in;
  return count;
}
int64_t ConvShape::out_positions() const {
  int64_t count = 1;
  for (const Dim& d : dims) count *= d.out;
  return count;
}
int64_t ConvShape::taps() const {
  int64_t count = 1;
  for (const Dim& d : dims) count *= d.sliding.filter;
  return count;
}

std::vector<int64_t> FilterSizes(const Shape& w) { return {w.begin(), w.end() - 2}; }

ConvShape ConvShapeOf(const Attrs& attrs, const Shape& x, const Shape& w, const Shape& y) {
  ConvShape shape{.batch = x[0],
                  .groups = attrs.Get<int64_t>("groups"),
                  .in_channels = x.back(),
                  .out_channels = y.back(),
                  .dims = {}};
  const Slidings slidings = SlidingsOf(attrs, w.size() - 2, FilterSizes(w));
  for (size_t d = 0; d < slidings.size(); ++d) shape.dims.push_back({x[1 + d], y[1 + d], slidings[d]});
  return shape;
}

}  // namespace meshwork
