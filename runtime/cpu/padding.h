// The padding of variables in the memory of this process.
#pragma once

#include <cstdint>
#include <vector>

#include "meshwork/runtime/exec/dtensor.h"
#include "meshwork/runtime/tensor/box.h"

namespace meshwork {

// The elements of a DTensor's buffers that lie in no block. They are found once; filling them allocates
// nothing.
class Padding {
 public:
  Padding() = default;  // for a tensor without buffers
  explicit Padding(const DTensor& tensor);
  // Writes bytes 0xFF: NaN, -1. REQUIRES: `tensor` is the constructor's, or has the same type, layout and
  // instances.
  void Poison(DTensor& tensor) const;

 private:
  std::vector<BoxCopy> blocks_;  // per instance: the elements that are not padding
  int64_t elements_ = 0;         // of each buffer
};

}  // namespace meshwork
