// float16: the binary16 of IEEE 754, 5 bits of exponent and 10 of mantissa; its largest number is 65504.
//
// A storage type: it converts to float without loss, and float converts to it rounded to the nearest, ties to
// even. Numbers beyond the largest become infinite, numbers below 2^-14 become subnormal numbers, which have
// fewer digits, and NaN stays NaN. Arithmetic happens in float.
#pragma once

#include <bit>
#include <cstdint>

#include "meshwork/base/narrow_bits.h"

namespace meshwork {

struct Float16 {
  uint16_t bits;

  Float16() = default;
  explicit constexpr Float16(float x) : bits(portable::F16OfBits(std::bit_cast<uint32_t>(x))) {}
  constexpr operator float() const {  // NOLINT: exact
    return std::bit_cast<float>(portable::BitsOfF16(bits));
  }
  static constexpr Float16 FromBits(uint16_t bits) {
    Float16 half{};
    half.bits = bits;
    return half;
  }
};

}  // namespace meshwork
