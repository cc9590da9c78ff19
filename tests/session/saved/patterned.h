// Numbers to feed that are not all alike, and may be labels, too.
#pragma once

#include <cstdint>

#include "meshwork/runtime/tensor/tensor.h"

namespace meshwork {

// Reals between -0.3 and 0.3; integers between 0 and 4.
inline Tensor Patterned(const Type& type) {
  Tensor tensor(type);
  DispatchAny(type.dtype, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      T& element = tensor.mutable_values<T>()[static_cast<size_t>(i)];
      if constexpr (kIsReal<T>) element = static_cast<T>(0.1F * static_cast<float>(i * 5 % 7) - 0.3F);
      else element = static_cast<T>(i % 5);
    }
  });
  return tensor;
}

}  // namespace meshwork
