#include "meshwork/base/fast_hash.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace meshwork {
namespace {

// Odd, with bits that look random: the golden ratio's, and those of MurmurHash3's and SplitMix64's finalizers.
constexpr uint64_t kLane = 0x9e3779b97f4a7c15u, kWord = 0xff51afd7ed558ccdu;
constexpr uint64_t kFirst = 0xbf58476d1ce4e5b9u, kSecond = 0x94d049bb133111ebu;

// A bijection whose bits each depend on all of `x`.
uint64_t Scrambled(uint64_t x) {
  x = (x ^ x >> 30) * kFirst;
  x = (x ^ x >> 27) * kSecond;
  return x ^ x >> 31;
}

}  // namespace

FastHash::FastHash() {
  for (size_t lane = 0; lane < lanes_.size(); ++lane) lanes_[lane] = Scrambled(kLane * (lane + 1));
}

// The round of XXH64 (https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md). A product carries a bit to
// higher bits only. With a rotation between two products, one of them carries each bit far.
void FastHash::Mix(Lanes& lanes, const std::byte* data, int64_t count) {
  Lanes now = lanes;  // in registers
  for (; count > 0; --count, data += kStripe) {
    for (size_t lane = 0; lane < now.size(); ++lane) {
      uint64_t word;
      std::memcpy(&word, data + 8 * lane, sizeof(word));
      now[lane] = std::rotl(now[lane] + word * kWord, 31) * kLane;
    }
  }
  lanes = now;
}

void FastHash::Add(const std::byte* data, int64_t size) {
  if (size == 0) return;
  const int64_t filled = size_ % kStripe;
  size_ += size;
  if (filled > 0) {
    const int64_t taken = std::min(size, kStripe - filled);
    std::memcpy(rest_.data() + filled, data, static_cast<size_t>(taken));
    if (filled + taken < kStripe) return;
    Mix(lanes_, rest_.data(), 1);
    data += taken;
    size -= taken;
  }
  Mix(lanes_, data, size / kStripe);
  std::memcpy(rest_.data(), data + size / kStripe * kStripe, static_cast<size_t>(size % kStripe));
}

uint64_t FastHash::value() const {
  Lanes lanes = lanes_;
  if (const auto filled = static_cast<size_t>(size_ % kStripe); filled > 0) {
    std::array<std::byte, kStripe> last = {};
    std::memcpy(last.data(), rest_.data(), filled);
    Mix(lanes, last.data(), 1);
  }
  uint64_t hash = Scrambled(static_cast<uint64_t>(size_));
  for (uint64_t lane : lanes) hash = Scrambled(hash ^ lane);
  return hash;
}

}  // namespace meshwork
