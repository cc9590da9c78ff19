// Walks the elements of a device's block in runs whose global linear indices follow each other.
#pragma once

#include <cstdint>

#include "meshwork/layout/layout.h"

namespace meshwork {

// Calls f(element of the local buffer, global linear index, length) for the rows [begin, end) of a
// block: runs of elements whose global linear indices follow each other. Padding is left alone.
template <typename F>
void ForEachRow(const Shape& local, const Shape& global, const Block& block, int64_t begin, int64_t end,
                F&& f) {
  if (local.empty()) return f(0, 0, 1);
  for (int64_t r = begin; r < end; ++r) {
    int64_t rest = r, index = block.back().start, stride = global.back();
    bool padding = false;
    for (size_t d = local.size() - 1; d-- > 0;) {
      const int64_t at = rest % local[d];
      rest /= local[d];
      padding |= at >= block[d].size;
      index += (block[d].start + at) * stride;
      stride *= global[d];
    }
    if (!padding) f(r * local.back(), index, block.back().size);
  }
}

inline int64_t NumRows(const Shape& local) {
  return local.empty() ? 1 : (local.back() == 0 ? 0 : NumElements(local) / local.back());
}

}  // namespace meshwork
