// CRC-32C (Castagnoli): the checksum of the records of TFRecord and TensorBoard files (RFC 3720, section 12.1).
//
//   Crc32c(std::as_bytes(std::span(std::string_view("123456789"))))   // 0xe3069283
//
// It finds damage, not forgery. Pure functions, thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace meshwork {

// Uses the instruction of the CPU if it has one (SSE 4.2), otherwise a table. 0 for no bytes.
uint32_t Crc32c(std::span<const std::byte> bytes);

// The checksum as records store it: rotated by 15 bits, plus a constant. So a checksum of data that contains checksums
// is no weaker.
constexpr uint32_t MaskedCrc32c(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }
inline uint32_t MaskedCrc32cOf(std::string_view bytes) {
  return MaskedCrc32c(Crc32c(std::as_bytes(std::span(bytes))));
}

namespace internal {

// By the table, on every CPU. Law: equals Crc32c.
uint32_t Crc32cByTable(std::span<const std::byte> bytes);

}  // namespace internal

}  // namespace meshwork
