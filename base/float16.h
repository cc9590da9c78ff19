// float16: the binary16 of IEEE 754, 5 bits of exponent and 10 of mantissa; its largest number is 65504.
//
// A storage type: it converts to float without loss, and float converts to it rounded to the nearest, ties to
// even. Numbers beyond the largest become infinite, numbers below 2^-14 become subnormal numbers, which have
// fewer digits, and NaN stays NaN. Arithmetic happens in float.
#pragma once

#include <bit>
#include <cstdint>

namespace meshwork {

struct Float16 {
  uint16_t bits;

  Float16() = default;
  explicit constexpr Float16(float x) : bits(Round(std::bit_cast<uint32_t>(x))) {}
  constexpr operator float() const {  // NOLINT: exact
    return Widen(bits);
  }
  static constexpr Float16 FromBits(uint16_t bits) {
    Float16 half{};
    half.bits = bits;
    return half;
  }

 private:
  // Integers only, here and below, so that a processor that flushes subnormal numbers to zero is right, too.
  static constexpr float Widen(uint16_t half) {
    const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
    const uint32_t exponent = half >> 10 & 0x1f, mantissa = half & 0x3ff;
    if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000 | mantissa << 13);
    if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
    if (mantissa == 0) return std::bit_cast<float>(sign);
    // 2^-24 * mantissa: its leading one becomes the hidden bit.
    const auto shift = static_cast<uint32_t>(std::countl_zero(mantissa)) - 21;
    return std::bit_cast<float>(sign | (113 - shift) << 23 | (mantissa << shift & 0x3ff) << 13);
  }

  static constexpr uint16_t Round(uint32_t x) {
    const auto sign = static_cast<uint16_t>(x >> 16 & 0x8000);
    const uint32_t size = x & 0x7fffffff;
    if (size > 0x7f800000) return static_cast<uint16_t>(sign | 0x7e00 | (size >> 13 & 0x3ff));  // a quiet NaN
    if (size >= 0x47800000) return static_cast<uint16_t>(sign | 0x7c00);  // 2^16 and more
    // A carry of the mantissa goes into the exponent: 65520 becomes infinite.
    if (size >= 0x38800000) return static_cast<uint16_t>(sign | (Shifted(size, 13) - (112 << 10)));
    if (size < 0x33000000) return sign;  // below 2^-25, the half of the smallest
    return static_cast<uint16_t>(sign | Shifted((size & 0x7fffff) | 0x800000, 126 - (size >> 23)));
  }
  // x / 2^shift, to the nearest, ties to even. REQUIRES: 1 <= shift <= 24.
  static constexpr uint32_t Shifted(uint32_t x, uint32_t shift) {
    return (x + (1U << (shift - 1)) - 1 + (x >> shift & 1)) >> shift;
  }
};

}  // namespace meshwork
