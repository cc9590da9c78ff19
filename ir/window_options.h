// How a user says which windows slide over an image: Conv, MaxPool and their like (ops/convolution.h).
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace meshwork {

// What lies around an image: zeros (of max_pool, what is below every number).
struct WindowPadding {
  enum class Kind { kValid, kSame, kExplicit };
  Kind kind = Kind::kValid;
  std::vector<int64_t> low = {}, high = {};  // of kExplicit, per spatial dim

  static WindowPadding Valid() { return {}; }  // none
  // As much as makes ceil(size / stride) results; where it is odd, one more at the high end.
  static WindowPadding Same() { return {Kind::kSame, {}, {}}; }
  // Negative numbers crop: windows do not see so many elements at the ends.
  static WindowPadding Explicit(std::vector<int64_t> low, std::vector<int64_t> high) {
    return {Kind::kExplicit, std::move(low), std::move(high)};
  }
};
// How windows slide, per spatial dim. An empty list is all ones.
struct WindowOptions {
  std::vector<int64_t> strides = {};
  WindowPadding padding = {};
  std::vector<int64_t> dilation = {};  // how far apart neighbours in a window lie
};

}  // namespace meshwork
