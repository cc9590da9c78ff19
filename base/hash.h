// FNV-1a: a 64-bit hash of text that is the same on every machine and in every build.
#pragma once

#include <cstdint>
#include <string_view>

namespace meshwork {

inline uint64_t StableHash(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (unsigned char c : text) hash = (hash ^ c) * 0x100000001b3u;
  return hash;
}

}  // namespace meshwork
