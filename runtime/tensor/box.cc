#include "meshwork/runtime/tensor/box.h"

#include <cstring>

#include "meshwork/base/status.h"

namespace meshwork {
namespace {

// Element strides of a dense, row-major buffer.
Shape StridesOf(const Shape& shape) {
  Shape strides(shape.size());
  int64_t stride = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= shape[d];
  }
  return strides;
}

}  // namespace

BoxBuffer BoxBuffer::OfDevice(const Layout& layout, const Shape& global, int64_t device) {
  const Shape shape = layout.FactorShape(global);
  BoxBuffer buffer{Shape(shape.size()), layout.Flat().LocalShape(shape)};
  const Block block = layout.BlockOf(global, device);
  for (size_t d = 0; d < block.size(); ++d) buffer.start[d] = block[d].start;
  return buffer;
}

BoxBuffer BoxBuffer::OfBox(const Block& box) {
  BoxBuffer buffer{{}, SizesOf(box)};
  for (const Extent& extent : box) buffer.start.push_back(extent.start);
  return buffer;
}

BoxBuffer BoxBuffer::OfPart(const Layout& layout, const Shape& global, int64_t device, const Block& part) {
  const BoxBuffer of_factors = OfDevice(layout, global, device);
  if (!layout.is_strided() || NumElements(part) == 0) return of_factors;
  BoxBuffer buffer{Shape(global.size()), Shape(global.size(), 1)};
  size_t end = of_factors.shape.size();
  for (int d = layout.rank(); d-- > 0;) {
    const auto dim = static_cast<size_t>(d);
    const FactorList factors = layout.Factors(d, global[dim]);
    int64_t index = part[dim].start, offset = 0;
    for (size_t f = factors.size(); f-- > 0;) {
      --end;
      offset += (index % factors[f].size - of_factors.start[end]) * buffer.shape[dim];
      buffer.shape[dim] *= of_factors.shape[end];
      index /= factors[f].size;
    }
    buffer.start[dim] = part[dim].start - offset;
  }
  return buffer;
}

BoxCopy BoxCopy::Linear(int64_t elements) {
  BoxCopy copy;
  copy.run_ = copy.elements_ = elements;
  return copy;
}

BoxCopy BoxCopy::Runs(int64_t count, int64_t size, int64_t from, int64_t from_step, int64_t to,
                      int64_t to_step) {
  BoxCopy copy = Linear(count * size);
  copy.from_offset_ = from;
  copy.to_offset_ = to;
  if (count <= 1 || (from_step == size && to_step == size)) return copy;
  copy.run_ = size;
  copy.outer_ = {{count, from_step, to_step}};
  return copy;
}

BoxCopy::BoxCopy(const Block& region, const BoxBuffer& from, const BoxBuffer& to) {
  absl::InlinedVector<BoxSteps, 4> dims;
  for (size_t d = 0; d < region.size(); ++d)
    dims.push_back({.count = region[d].size,
                    .from = region[d].start - from.start[d],
                    .to = region[d].start - to.start[d]});
  *this = BoxCopy(dims, from.shape, to.shape);
}

BoxCopy::BoxCopy(std::span<const BoxSteps> dims, const Shape& from, const Shape& to) : run_(1), elements_(1) {
  for (const BoxSteps& steps : dims) elements_ *= steps.count;
  if (elements_ == 0) return;
  const Shape from_strides = StridesOf(from), to_strides = StridesOf(to);
  for (size_t d = dims.size(); d-- > 0;) {
    const BoxSteps& steps = dims[d];
    const int64_t from_last = steps.from + (steps.count - 1) * steps.from_step,
                  to_last = steps.to + (steps.count - 1) * steps.to_step;
    MESHWORK_CHECK(std::min(steps.from, from_last) >= 0 && std::max(steps.from, from_last) < from[d] &&
                       steps.to >= 0 && to_last < to[d],
                   "dim {}: {} from {} to {}", d, steps.count, steps.from, steps.to);
    from_offset_ += steps.from * from_strides[d];
    to_offset_ += steps.to * to_strides[d];
    if (steps.count == 1) continue;
    const Dim dim{steps.count, from_strides[d] * steps.from_step, to_strides[d] * steps.to_step};
    if (outer_.empty() && dim.from_stride == run_ && dim.to_stride == run_) {
      run_ *= dim.count;
    } else if (!outer_.empty() && dim.from_stride == outer_.front().count * outer_.front().from_stride &&
               dim.to_stride == outer_.front().count * outer_.front().to_stride) {
      outer_.front().count *= dim.count;  // the same step over more rows
    } else {
      outer_.insert(outer_.begin(), dim);
    }
  }
}

void BoxCopy::Copy(const std::byte* from, std::byte* to, int64_t size, int64_t begin, int64_t end) const {
  ForRuns(begin, end, [&](int64_t from_offset, int64_t to_offset, int64_t count) {
    std::memcpy(to + to_offset * size, from + from_offset * size, static_cast<size_t>(count * size));
  });
}

}  // namespace meshwork
