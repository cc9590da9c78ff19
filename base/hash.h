// Hashes that are the same on every machine and in every build.
#pragma once

#include <cstdint>
#include <string_view>

namespace meshwork {

// FNV-1a.
inline uint64_t StableHash(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (unsigned char c : text) hash = (hash ^ c) * 0x100000001b3u;
  return hash;
}

// The hash of two numbers, in their order: the finalizer of splitmix64 (Steele, Lea and Flood, "Fast splittable
// pseudorandom number generators", OOPSLA 2014).
inline uint64_t MixedHash(uint64_t a, uint64_t b) {
  const auto mixed = [](uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  };
  return mixed(a ^ mixed(b));
}

}  // namespace meshwork
