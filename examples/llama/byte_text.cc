#include "examples/llama/byte_text.h"

#include <array>
#include <cstdint>

namespace meshwork {
namespace {

constexpr int kCharacters = 0x144;

// By character: its byte, or -1.
constexpr std::array<int, kCharacters> kByteOf = [] {
  std::array<int, kCharacters> byte_of{};
  int other = 0x100;
  for (int& byte : byte_of) byte = -1;
  for (int byte = 0; byte < 256; ++byte) {
    const bool is_printable = (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte != 0xad);
    byte_of[static_cast<size_t>(is_printable ? byte : other++)] = byte;
  }
  return byte_of;
}();

}  // namespace

std::optional<std::string> BytesOf(std::string_view text) {
  std::string bytes;
  for (size_t i = 0; i < text.size(); ++i) {
    uint32_t character = static_cast<unsigned char>(text[i]);
    if (character >= 0x80) {
      if (character >= 0xe0) return std::nullopt;  // of three bytes or four: beyond U+0143
      character = (character & 0x1f) << 6 | (static_cast<unsigned char>(text[++i]) & 0x3f);
    }
    if (character >= kCharacters || kByteOf[character] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(kByteOf[character]));
  }
  return bytes;
}

}  // namespace meshwork
