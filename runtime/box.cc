#include "runtime/box.h"

#include <cstring>

#include "base/status.h"
#include "fmt/ranges.h"

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

Block Intersect(const Block& a, const Block& b) {
  Block common(a.size());
  for (size_t d = 0; d < a.size(); ++d) {
    const int64_t start = std::max(a[d].start, b[d].start);
    const int64_t end = std::min(a[d].start + a[d].size, b[d].start + b[d].size);
    common[d] = {start, std::max<int64_t>(end - start, 0)};
  }
  return common;
}

int64_t NumElements(const Block& block) {
  int64_t n = 1;
  for (const Extent& extent : block) n *= extent.size;
  return n;
}

Block WholeBlock(const Shape& global) {
  Block block(global.size());
  for (size_t d = 0; d < global.size(); ++d) block[d] = {0, global[d]};
  return block;
}

std::string BlockToString(const Block& block) {
  std::vector<std::string> dims;
  for (const Extent& e : block) dims.push_back(fmt::format("{}:{}", e.start, e.start + e.size));
  return fmt::format("[{}]", fmt::join(dims, ","));
}

BoxBuffer BoxBuffer::OfDevice(const Layout& layout, const Shape& global, int64_t device) {
  const Shape shape = layout.FactorShape(global);
  BoxBuffer buffer{Shape(shape.size()), layout.Flat().LocalShape(shape)};
  const Block block = layout.BlockOf(global, device);
  for (size_t d = 0; d < block.size(); ++d) buffer.start[d] = block[d].start;
  return buffer;
}

BoxCopy BoxCopy::Linear(int64_t elements) {
  BoxCopy copy;
  copy.run_ = copy.elements_ = elements;
  return copy;
}

BoxCopy::BoxCopy(const Block& region, const BoxBuffer& from, const BoxBuffer& to)
    : run_(1), elements_(NumElements(region)) {
  if (elements_ == 0) return;
  const Shape from_strides = StridesOf(from.shape), to_strides = StridesOf(to.shape);
  for (size_t d = region.size(); d-- > 0;) {
    const Extent& extent = region[d];
    const int64_t from_index = extent.start - from.start[d], to_index = extent.start - to.start[d];
    MESHWORK_CHECK(from_index >= 0 && from_index + extent.size <= from.shape[d] && to_index >= 0 &&
                       to_index + extent.size <= to.shape[d],
                   "dim {} of {}", d, BlockToString(region));
    from_offset_ += from_index * from_strides[d];
    to_offset_ += to_index * to_strides[d];
    if (extent.size == 1) continue;
    const Dim dim{extent.size, from_strides[d], to_strides[d]};
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
