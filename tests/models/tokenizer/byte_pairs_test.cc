#include "examples/llama/byte_pairs.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/random.h"

namespace meshwork::tokenizer_test {
namespace {

using Ids = std::vector<int32_t>;
using Merge = BytePairVocabulary::Merge;

BytePairVocabulary VocabularyOf(std::vector<Merge> merges) {
  BytePairVocabulary vocabulary{.byte_ids = {}, .merges = std::move(merges)};
  for (int32_t byte = 0; byte < 256; ++byte) vocabulary.byte_ids[static_cast<size_t>(byte)] = byte;
  return vocabulary;
}

// `count` merges of tokens made of a, b and c. The same text may come from several pairs, and is one token.
std::vector<Merge> RandomMerges(Random& random, size_t count) {
  std::vector<std::string> texts = {"a", "b", "c"};
  std::map<std::string, int32_t> ids = {{"a", 'a'}, {"b", 'b'}, {"c", 'c'}};
  std::vector<Merge> merges;
  std::map<std::pair<int32_t, int32_t>, bool> seen;
  while (merges.size() < count) {
    const std::string left = texts[random.Below(texts.size())], right = texts[random.Below(texts.size())];
    if (left.size() + right.size() > 9 || !seen.emplace(std::pair(ids[left], ids[right]), true).second)
      continue;
    const auto [result, is_new] = ids.emplace(left + right, 253 + static_cast<int32_t>(ids.size()));
    if (is_new) texts.push_back(left + right);
    merges.push_back({ids[left], ids[right], result->second});
  }
  // Also those merges come early that need the result of later ones.
  for (size_t i = merges.size() - 1; i > 0; --i)
    if (random.Below(4) == 0) std::swap(merges[i], merges[random.Below(i + 1)]);
  return merges;
}

// One merge after the other, as the definition has it.
Ids Naive(const std::vector<Merge>& merges, const std::string& piece) {
  Ids ids(piece.begin(), piece.end());
  for (;;) {
    size_t best = merges.size(), place = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i)
      for (size_t rank = 0; rank < best; ++rank)
        if (merges[rank].left == ids[i] && merges[rank].right == ids[i + 1]) best = rank, place = i;
    if (best == merges.size()) return ids;
    ids[place] = merges[best].result;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(place) + 1);
  }
}

TEST(BytePairsTest, MergesOneAfterTheOther) {
  Random random(1);
  for (int vocabulary = 0; vocabulary < 40; ++vocabulary) {
    const std::vector<Merge> merges = RandomMerges(random, 1 + random.Below(40));
    const BytePairs pairs(VocabularyOf(merges));
    for (int i = 0; i < 50; ++i) {
      std::string piece;
      for (uint64_t size = random.Below(40); piece.size() < size;)
        piece += static_cast<char>('a' + random.Below(3));
      Ids ids;
      pairs.Encode(piece, ids);
      EXPECT_EQ(ids, Naive(merges, piece)) << piece;
    }
  }
}

TEST(BytePairsTest, LongPiecesAreTakenWhole) {
  const BytePairs pairs(VocabularyOf({{'a', 'a', 256}, {256, 256, 257}, {257, 257, 258}, {258, 'a', 259}}));
  Ids ids;
  pairs.Encode(std::string(100001, 'a'), ids);
  Ids expected(12499, 258);
  expected.push_back(259);
  EXPECT_EQ(ids, expected);
}

}  // namespace
}  // namespace meshwork::tokenizer_test
