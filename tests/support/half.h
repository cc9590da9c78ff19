// The number that a pattern of bits is.
#pragma once

#include <cmath>

namespace meshwork {

// The value of a binary16 number, by the formula of IEEE 754.
inline double ValueOfHalf(int bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const double sign = bits >> 15 == 1 ? -1 : 1;
  if (exponent == 31) return mantissa == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

}  // namespace meshwork
