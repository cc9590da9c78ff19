#include "meshwork/base/fast_hash.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <random>
#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace meshwork::fast_hash_test {
namespace {

using Bytes = std::vector<std::byte>;

Bytes Random(size_t size, uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

uint64_t HashOf(const Bytes& bytes) {
  FastHash hash;
  hash.Add(bytes.data(), std::ssize(bytes));
  return hash.value();
}

TEST(FastHashTest, PiecesHaveTheHashOfTheWhole) {
  std::mt19937_64 random(7);
  for (size_t size : {0, 1, 7, 8, 63, 64, 65, 127, 128, 200, 1000}) {
    const Bytes bytes = Random(size);
    for (int trial = 0; trial < 50; ++trial) {
      FastHash hash;
      for (size_t begin = 0; begin < size;) {
        const size_t piece = std::min(size - begin, static_cast<size_t>(random() % 150));
        hash.Add(bytes.data() + begin, static_cast<int64_t>(piece));
        begin += piece;
      }
      ASSERT_EQ(hash.value(), HashOf(bytes)) << size;
    }
  }
}

// Processes tell each other the value, and nobody stores it. Still, a change should not go unnoticed.
TEST(FastHashTest, IsTheSameInEveryBuild) {
  EXPECT_EQ(HashOf({}), 16677694672189883975u);
  EXPECT_EQ(HashOf(Random(100)), 17755633681300697486u);
}

// Every single flipped bit, every pair of them, and every number of zero bytes changes the hash.
TEST(FastHashTest, SmallChangesShow) {
  for (size_t size : {1, 8, 9, 63, 64, 65, 130, 200}) {
    for (const Bytes& whole : {Bytes(size), Random(size)}) {
      Bytes bytes = whole;
      std::set<uint64_t> seen = {HashOf(bytes)};
      for (size_t bit = 0; bit < 8 * size; ++bit) {
        bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
        ASSERT_TRUE(seen.insert(HashOf(bytes)).second) << "bit " << bit << " of " << size << " bytes";
        bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
      }
    }
  }
  Bytes bytes = Random(72);
  std::set<uint64_t> seen;
  for (size_t a = 0; a < 8 * bytes.size(); ++a) {
    bytes[a / 8] ^= static_cast<std::byte>(1 << a % 8);
    for (size_t b = a + 1; b < 8 * bytes.size(); ++b) {
      bytes[b / 8] ^= static_cast<std::byte>(1 << b % 8);
      ASSERT_TRUE(seen.insert(HashOf(bytes)).second) << "bits " << a << " and " << b;
      bytes[b / 8] ^= static_cast<std::byte>(1 << b % 8);
    }
    bytes[a / 8] ^= static_cast<std::byte>(1 << a % 8);
  }
  seen.clear();
  for (size_t size = 0; size < 500; ++size) ASSERT_TRUE(seen.insert(HashOf(Bytes(size))).second) << size;
}

// Two different values of one 8-byte word never have the same hash: words of many kinds, at each place of a stripe.
TEST(FastHashTest, WordsOfTheSamePlaceNeverHaveTheSameHash) {
  for (size_t word = 0; word < 20; ++word) {
    Bytes bytes = Random(8 * 20);
    std::set<uint64_t> seen;
    std::mt19937_64 random(word);
    for (uint64_t i = 0; i < 3000; ++i) {
      const uint64_t value = i < 1000 ? i : i < 2000 ? (i - 1000) << 32 | 1ULL << 63 : random();
      std::memcpy(bytes.data() + 8 * word, &value, sizeof(value));
      ASSERT_TRUE(seen.insert(HashOf(bytes)).second) << value << " in word " << word;
    }
  }
}

// The order of words matters: words change places within a lane and between lanes.
TEST(FastHashTest, OrdersShow) {
  const Bytes whole = Random(8 * 32);
  std::set<uint64_t> seen = {HashOf(whole)};
  for (size_t a = 0; a < 32; ++a) {
    for (size_t b = a + 1; b < 32; ++b) {
      Bytes bytes = whole;
      std::swap_ranges(bytes.begin() + static_cast<int64_t>(8 * a),
                       bytes.begin() + static_cast<int64_t>(8 * a + 8),
                       bytes.begin() + static_cast<int64_t>(8 * b));
      ASSERT_TRUE(seen.insert(HashOf(bytes)).second) << "words " << a << " and " << b;
    }
  }
}

// Each bit that flips changes about half of the hash.
TEST(FastHashTest, AFlipChangesHalfOfTheBits) {
  for (size_t size : {4, 64, 200}) {
    Bytes bytes = Random(size);
    const uint64_t before = HashOf(bytes);
    int64_t changed = 0;
    for (size_t bit = 0; bit < 8 * size; ++bit) {
      bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
      const int flips = std::popcount(before ^ HashOf(bytes));
      EXPECT_GT(flips, 8) << "bit " << bit << " of " << size << " bytes";
      changed += flips;
      bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    }
    EXPECT_NEAR(static_cast<double>(changed) / (8.0 * static_cast<double>(size)), 32, 3);
  }
}

}  // namespace
}  // namespace meshwork::fast_hash_test
