#include "meshwork/runtime/tensor/strided.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "meshwork/base/status.h"
#include "meshwork/ops/kernels/elementwise.h"

namespace meshwork {
namespace {

template <size_t kSize>
void CopyElements(const void* from, const BroadcastWalk<1>& walk, int64_t elements, void* to) {
  using Element = std::array<std::byte, kSize>;  // no alignment
  const auto* const source = static_cast<const Element*>(from);
  auto* const target = static_cast<Element*>(to);
  const int64_t stride = walk.dims.back().strides[0];
  ForEachRun(walk, 0, elements, [&](int64_t at, const std::array<int64_t, 1>& offset, int64_t n) {
    const Element* const run = source + offset[0];
    if (stride == 1) std::copy_n(run, n, target + at);
    else
      for (int64_t i = 0; i < n; ++i) target[at + i] = run[i * stride];
  });
}

}  // namespace

void CopyStrided(const void* from, const Shape& shape, const Shape& strides, int64_t size, void* to) {
  MESHWORK_CHECK(shape.size() == strides.size(), "{} strides of {} dims", strides.size(), shape.size());
  const BroadcastWalk<1> walk = MergeDims<1>(shape, {strides});
  const int64_t elements = NumElements(shape);
  switch (size) {
    case 1: return CopyElements<1>(from, walk, elements, to);
    case 2: return CopyElements<2>(from, walk, elements, to);
    case 4: return CopyElements<4>(from, walk, elements, to);
    case 8: return CopyElements<8>(from, walk, elements, to);
    default: MESHWORK_CHECK(false, "elements of {} bytes", size);
  }
}

}  // namespace meshwork
