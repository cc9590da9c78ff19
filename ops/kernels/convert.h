// ConvertTo: a number as another element type, rounded once.
//
//   ConvertTo<int32_t>(-2.7f)    // -2
//   ConvertTo<BFloat16>(x)       // the nearest, ties to even, also of a double or an int64_t
//
// The op cast and Tensor::Cast convert with it. Pure functions.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "meshwork/ir/type.h"

namespace meshwork {
namespace internal {

// Rounds to a type that is to be rounded again, so that the second rounding sees on which side of a tie x
// lies: of two neighbours the one whose last bit is set (Boldo and Melquiond, "Emulation of FMA and Correctly
// Rounded Sums: Proved Algorithms Using Rounding to Odd", 2008, section 3).
inline float RoundToOdd(double x) {
  const auto nearest = static_cast<float>(x);
  if (nearest == x || x != x) return nearest;
  const auto bits = std::bit_cast<uint32_t>(nearest);
  const bool beyond = std::fabs(static_cast<double>(nearest)) > std::fabs(x);
  return std::bit_cast<float>((bits - (beyond ? 1 : 0)) | 1);
}
template <typename Small>
requires(std::is_integral_v<Small> && sizeof(Small) <= sizeof(int32_t)) inline float RoundToOdd(Small x) {
  return RoundToOdd(static_cast<double>(x));
}
inline float RoundToOdd(int64_t x) {
  constexpr int64_t kExact = int64_t{1} << 53, kLost = (int64_t{1} << 11) - 1;
  if (x <= -kExact || x >= kExact) x = (x & ~kLost) | ((x & kLost) != 0 ? kLost + 1 : 0);
  return RoundToOdd(static_cast<double>(x));
}

// Real to whole: towards zero, clamped to the range, NaN is 0 (defined on every machine).
template <typename To, typename From>
To Clamped(From x) {
  if (x != x) return 0;
  if (x <= static_cast<From>(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
  if (x >= static_cast<From>(std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
  return static_cast<To>(x);
}

}  // namespace internal

// x as a To. From: a Compute<T> (ir/type.h). Real to whole: towards zero, clamped to the range, NaN is 0. Between whole
// types, high bits are dropped. To bool: x != 0.
template <typename To, typename From>
To ConvertTo(From x) {
  if constexpr (std::is_same_v<To, bool>) return x != From(0);
  else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>)
    return internal::Clamped<To>(x);
  else if constexpr (kIsNarrowReal<To> && !std::is_same_v<From, float> && !std::is_same_v<From, bool>)
    return To(internal::RoundToOdd(x));
  else return static_cast<To>(x);
}

}  // namespace meshwork
