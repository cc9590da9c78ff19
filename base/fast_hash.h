// FastHash: a 64-bit hash of bytes, computed about as fast as memory is read. It detects damage, not forgery: it is
// easy to construct two texts with the same hash.
//
//   FastHash hash;
//   hash.Add(first.data(), 100);
//   hash.Add(second.data(), 28);
//   hash.value()                  // of all 128 bytes
//
// Eight lanes take one word of 8 bytes each, in turn. The new state of a lane is a bijection of the word, and a
// bijection of its old state. The final value is a bijection of the state of each lane.
//
// Laws: bytes that are added in pieces have the hash of the whole. Data of one length that differ only in bytes 8i to
// 8i + 7, for some i, have different hashes, always; other data have the same hash once in 2^64.
//
// The same on all machines of one byte order. Thread safety: one thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace meshwork {

class FastHash {
 public:
  FastHash();
  // REQUIRES: size >= 0.
  void Add(const std::byte* data, int64_t size);
  // The hash of all bytes added so far.
  uint64_t value() const;

 private:
  static constexpr int64_t kStripe = 64;
  using Lanes = std::array<uint64_t, 8>;

  // Takes in `count` stripes.
  static void Mix(Lanes& lanes, const std::byte* data, int64_t count);

  Lanes lanes_;
  std::array<std::byte, kStripe> rest_;  // the last size_ % kStripe bytes
  int64_t size_ = 0;
};

// The hash of some numbers, in their order.
class HashOfWords {
 public:
  void Add(uint64_t word) { hash_.Add(reinterpret_cast<const std::byte*>(&word), sizeof(word)); }
  uint64_t value() const { return hash_.value(); }

 private:
  FastHash hash_;
};

}  // namespace meshwork
