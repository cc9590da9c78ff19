// ConvertTo: a number as another element type, rounded once.
//
//   ConvertTo<int32_t>(-2.7f)    // -2
//   ConvertTo<BFloat16>(x)       // the nearest, ties to even, also of a double or an int64_t
//
// The op cast and Tensor::Cast convert with it. Pure functions.
#pragma once

#include <type_traits>

#include "meshwork/ir/type.h"
#include "meshwork/ops/kernels/portable/arithmetic.h"

namespace meshwork {

// x as a To. From: a Compute<T> (ir/type.h). Real to whole: towards zero, clamped to the range, NaN is 0. Between whole
// types, high bits are dropped. To bool: x != 0.
template <typename To, typename From>
To ConvertTo(From x) {
  if constexpr (std::is_same_v<To, bool>) return x != From(0);
  else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>)
    return portable::Clamped<To>(x);
  else if constexpr (kIsNarrowReal<To>) return To(portable::ToOdd(x));
  else return static_cast<To>(x);
}

}  // namespace meshwork
