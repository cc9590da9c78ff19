// bfloat16: the upper half of a float, 8 bits of exponent and 7 of mantissa.
//
// A storage type: it converts to float without loss, and float converts to it rounded to the nearest, ties
// to even; NaN stays NaN. Arithmetic happens in float.
#pragma once

#include <bit>
#include <cstdint>

namespace meshwork {

struct BFloat16 {
  uint16_t bits;

  BFloat16() = default;
  explicit constexpr BFloat16(float x) : bits(Round(std::bit_cast<uint32_t>(x))) {}
  constexpr operator float() const {  // NOLINT: exact
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }

 private:
  static constexpr uint16_t Round(uint32_t x) {
    if ((x & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>(x >> 16 | 0x40);  // a quiet NaN
    return static_cast<uint16_t>((x + 0x7fff + (x >> 16 & 1)) >> 16);
  }
};

}  // namespace meshwork
