// bfloat16: the upper half of a float, 8 bits of exponent and 7 of mantissa.
//
// A storage type: it converts to float without loss, and float converts to it rounded to the nearest, ties
// to even; NaN stays NaN. Arithmetic happens in float.
#pragma once

#include <bit>
#include <cstdint>

#include "meshwork/base/narrow_bits.h"

namespace meshwork {

struct BFloat16 {
  uint16_t bits;

  BFloat16() = default;
  explicit constexpr BFloat16(float x) : bits(portable::Bf16OfBits(std::bit_cast<uint32_t>(x))) {}
  constexpr operator float() const {  // NOLINT: exact
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
};

}  // namespace meshwork
