// The padding of variables in the memory of this process.
#pragma once

#include <cstdint>
#include <vector>

#include "meshwork/runtime/box.h"
#include "meshwork/runtime/dtensor.h"

namespace meshwork {

// What lies in no block of a DTensor's buffers, found once; filling it allocates nothing.
class Padding {
 public:
  Padding() = default;  // of a tensor without buffers
  explicit Padding(const DTensor& tensor);
  // Writes bytes 0xFF: NaN, -1. REQUIRES: the tensor it was found for, or one of the same type, layout and
  // instances.
  void Poison(DTensor& tensor) const;

 private:
  std::vector<BoxCopy> blocks_;  // per instance: the elements that are no padding
  int64_t elements_ = 0;         // of each buffer
};

}  // namespace meshwork
