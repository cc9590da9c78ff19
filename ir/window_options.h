// Options for the windows that slide over an image, for Conv, MaxPool and the like (ops/convolution.h).
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace meshwork {

// The padding around an image: zeros (for max_pool, a value below every number).
struct WindowPadding {
  enum class Kind { kValid, kSame, kExplicit };
  Kind kind = Kind::kValid;
  std::vector<int64_t> low = {}, high = {};  // of kExplicit, per spatial dim

  static WindowPadding Valid() { return {}; }  // none
  // The padding that gives ceil(size / stride) results; if it is odd, the extra element is at the high end.
  static WindowPadding Same() { return {Kind::kSame, {}, {}}; }
  // Negative numbers crop: windows do not see that many elements at the ends.
  static WindowPadding Explicit(std::vector<int64_t> low, std::vector<int64_t> high) {
    return {Kind::kExplicit, std::move(low), std::move(high)};
  }
};
// How windows slide, per spatial dim. An empty list is all ones.
struct WindowOptions {
  std::vector<int64_t> strides = {};
  WindowPadding padding = {};
  std::vector<int64_t> dilation = {};  // the distance between neighbours in a window
};

}  // namespace meshwork
