// RowRange: consecutive rows of a batch, or of any tensor's dim 0.
#pragma once

#include <cstdint>

namespace meshwork {

// Rows begin to end - 1.
struct RowRange {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return end - begin; }
  bool operator==(const RowRange&) const = default;
};

}  // namespace meshwork
