#include "meshwork/base/crc32c.h"

#include <array>
#include <cstring>

namespace meshwork {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // reflected
constexpr size_t kAtOnce = 8;                 // bytes

// tables[k][b]: the checksum of byte b followed by k zeros, without the inversions at both ends.
constexpr auto kTables = [] {
  std::array<std::array<uint32_t, 256>, kAtOnce> tables{};
  for (uint32_t b = 0; b < 256; ++b) {
    uint32_t crc = b;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    tables[0][b] = crc;
  }
  for (size_t k = 1; k < kAtOnce; ++k)
    for (size_t b = 0; b < 256; ++b)
      tables[k][b] = (tables[k - 1][b] >> 8) ^ tables[0][tables[k - 1][b] & 0xff];
  return tables;
}();

#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("sse4.2"))) uint32_t ByInstruction(std::span<const std::byte> bytes) {
  uint64_t crc = 0xffffffff;
  for (; bytes.size() >= sizeof(uint64_t); bytes = bytes.subspan(sizeof(uint64_t))) {
    uint64_t word;
    std::memcpy(&word, bytes.data(), sizeof(word));
    crc = __builtin_ia32_crc32di(crc, word);
  }
  auto rest = static_cast<uint32_t>(crc);
  for (std::byte b : bytes) rest = __builtin_ia32_crc32qi(rest, static_cast<uint8_t>(b));
  return ~rest;
}
#endif

}  // namespace

uint32_t internal::Crc32cByTable(std::span<const std::byte> bytes) {
  uint32_t crc = 0xffffffff;
  for (; bytes.size() >= kAtOnce; bytes = bytes.subspan(kAtOnce)) {
    uint32_t next = 0;
    for (size_t i = 0; i < kAtOnce; ++i) {
      const uint32_t mixed = i < 4 ? (crc >> (8 * i)) & 0xff : 0;
      next ^= kTables[kAtOnce - 1 - i][mixed ^ static_cast<uint32_t>(bytes[i])];
    }
    crc = next;
  }
  for (std::byte b : bytes) crc = (crc >> 8) ^ kTables[0][(crc ^ static_cast<uint32_t>(b)) & 0xff];
  return ~crc;
}

uint32_t Crc32c(std::span<const std::byte> bytes) {
#if defined(__x86_64__) && defined(__GNUC__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction) return ByInstruction(bytes);
#endif
  return internal::Crc32cByTable(bytes);
}

}  // namespace meshwork
