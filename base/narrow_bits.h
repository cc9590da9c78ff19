// The bits of bfloat16.h and float16.h from those of a float, and back. Integers only, so that a processor that flushes
// subnormal numbers to zero is right, too. A portable source.
#pragma once

#include "meshwork/base/portable.h"

namespace meshwork::portable {

// Rounded to the nearest, ties to even; NaN stays NaN.
MESHWORK_PORTABLE_CONSTEXPR unsigned short Bf16OfBits(unsigned x) {
  if ((x & 0x7fffffff) > 0x7f800000) return static_cast<unsigned short>(x >> 16 | 0x40);  // a quiet NaN
  return static_cast<unsigned short>((x + 0x7fff + (x >> 16 & 1)) >> 16);
}

MESHWORK_PORTABLE_CONSTEXPR unsigned BitsOfF16(unsigned short half) {
  const unsigned sign = static_cast<unsigned>(half & 0x8000) << 16;
  const unsigned exponent = half >> 10 & 0x1f, mantissa = half & 0x3ff;
  if (exponent == 0x1f) return sign | 0x7f800000 | mantissa << 13;
  if (exponent != 0) return sign | (exponent + 112) << 23 | mantissa << 13;
  if (mantissa == 0) return sign;
  // 2^-24 * mantissa: its leading one becomes the hidden bit.
  const unsigned shift = LeadingZeros(mantissa) - 21;
  return sign | (113 - shift) << 23 | (mantissa << shift & 0x3ff) << 13;
}

// x / 2^shift, to the nearest, ties to even. REQUIRES: 1 <= shift <= 24.
MESHWORK_PORTABLE_CONSTEXPR unsigned ShiftedToEven(unsigned x, unsigned shift) {
  return (x + (1U << (shift - 1)) - 1 + (x >> shift & 1)) >> shift;
}
// Rounded to the nearest, ties to even; NaN stays NaN.
MESHWORK_PORTABLE_CONSTEXPR unsigned short F16OfBits(unsigned x) {
  const unsigned sign = x >> 16 & 0x8000, size = x & 0x7fffffff;
  if (size > 0x7f800000)
    return static_cast<unsigned short>(sign | 0x7e00 | (size >> 13 & 0x3ff));  // a quiet NaN
  if (size >= 0x47800000) return static_cast<unsigned short>(sign | 0x7c00);   // 2^16 and more
  // A carry of the mantissa goes into the exponent: 65520 becomes infinite.
  if (size >= 0x38800000) return static_cast<unsigned short>(sign | (ShiftedToEven(size, 13) - (112 << 10)));
  if (size < 0x33000000) return static_cast<unsigned short>(sign);  // below 2^-25, the half of the smallest
  return static_cast<unsigned short>(sign | ShiftedToEven((size & 0x7fffff) | 0x800000, 126 - (size >> 23)));
}

}  // namespace meshwork::portable
