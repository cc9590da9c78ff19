// Random texts: UTF-8 of many scripts, with much white space and many digits, and bytes that are no UTF-8.
#pragma once

#include <cstdint>
#include <string>

#include "meshwork/base/random.h"

namespace meshwork::tokenizer_test {

inline std::string Utf8Of(uint32_t character) {
  const auto rest = [&](int shift) { return static_cast<char>(0x80 | (character >> shift & 0x3f)); };
  if (character < 0x80) return {static_cast<char>(character)};
  if (character < 0x800) return {static_cast<char>(0xc0 | character >> 6), rest(0)};
  if (character < 0x10000) return {static_cast<char>(0xe0 | character >> 12), rest(6), rest(0)};
  return {static_cast<char>(0xf0 | character >> 18), rest(12), rest(6), rest(0)};
}

inline uint32_t RandomCharacter(Random& random) {
  constexpr uint32_t kSpaces[] = {' ', ' ', ' ', '\n', '\t', '\r', 0xa0, 0x85, 0x3000};
  switch (random.Below(6)) {
    case 0: return kSpaces[random.Below(9)];
    case 1: return static_cast<uint32_t>('0' + random.Below(10));
    case 2: return static_cast<uint32_t>(0x20 + random.Below(0x5f));
    case 3: return static_cast<uint32_t>(0x80 + random.Below(0x780));
    case 4: return static_cast<uint32_t>(0x800 + random.Below(0xd000));  // below the surrogates
    default: return static_cast<uint32_t>(0xe000 + random.Below(0x110000 - 0xe000));
  }
}

inline std::string RandomUtf8(Random& random, uint64_t characters) {
  std::string text;
  for (uint64_t i = 0; i < characters; ++i) text += Utf8Of(RandomCharacter(random));
  return text;
}

inline std::string RandomBytes(Random& random, uint64_t bytes) {
  std::string text;
  for (uint64_t i = 0; i < bytes; ++i) text += static_cast<char>(random.Below(256));
  return text;
}

}  // namespace meshwork::tokenizer_test
