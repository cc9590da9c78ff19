#include "examples/llama/utf8.h"

#include <array>
#include <cstdint>

namespace meshwork {

size_t CharacterSize(std::string_view text) {
  constexpr std::array<uint32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};  // characters of so many bytes
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return 1;
  const size_t size = first < 0xc0 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf8 ? 4 : 0;
  if (size == 0 || text.size() < size) return 0;
  uint32_t character = first & (0x7fu >> size);
  for (const char byte : text.substr(1, size - 1)) {
    if ((static_cast<unsigned char>(byte) & 0xc0) != 0x80) return 0;
    character = character << 6 | (static_cast<unsigned char>(byte) & 0x3f);
  }
  const bool is_surrogate = character >= 0xd800 && character < 0xe000;
  return character < kLeast[size] || is_surrogate || character > 0x10ffff ? 0 : size;
}

}  // namespace meshwork
