// Byte-pair encoding (Sennrich, Haddow and Birch, "Neural machine translation of rare words with subword units", ACL 2016,
// section 3.2) of the bytes of one piece of text.
//
//   // With merges of l o -> lo, and lo w -> low, in this order:
//   pairs.Encode("lower", ids);   // low, e, r
//
// Const functions may be called concurrently.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace meshwork {

inline constexpr int32_t kNoToken = -1;

struct BytePairVocabulary {
  struct Merge {
    int32_t left, right, result;
  };

  std::array<int32_t, 256> byte_ids;    // the token of each byte, or kNoToken
  std::vector<Merge> merges;            // by rank; no two have the same left and right
  std::optional<int32_t> unknown = {};  // stands for bytes without a token; nothing: they are left out
  bool fuse_unknown = false;            // stands once for several such bytes in a row
  std::unordered_map<std::string, int32_t> whole = {};  // pieces that are this token, whatever the merges say
};

class BytePairs {
 public:
  explicit BytePairs(BytePairVocabulary vocabulary);

  // Appends the tokens of `piece`. Each byte is a token at first. Then, as long as there is one, the pair of neighbours
  // whose merge has the lowest rank becomes one token; of several such pairs, the leftmost. O(n log n) in the bytes.
  void Encode(std::string_view piece, std::vector<int32_t>& ids) const;

 private:
  std::vector<int32_t> TokensOfBytes(std::string_view piece) const;
  // The rank of the merge of two tokens; nothing if they are not merged.
  std::optional<uint32_t> Rank(int32_t left, int32_t right) const;

  BytePairVocabulary vocabulary_;
  std::unordered_map<uint64_t, uint32_t> ranks_;  // by both tokens
};

}  // namespace meshwork
