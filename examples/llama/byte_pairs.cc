#include "examples/llama/byte_pairs.h"

#include <queue>
#include <utility>

namespace meshwork {
namespace {

constexpr size_t kNone = SIZE_MAX;

uint64_t KeyOf(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

// A token, in the list of those of a piece. A token that was merged into the one before it is kNoToken.
struct Symbol {
  int32_t id;
  size_t previous, next;
};

// A merge of the symbol at `place` and the next one, at the time when it was found.
struct Candidate {
  uint32_t rank;
  size_t place;

  // For std::priority_queue, whose top is the greatest.
  bool operator<(const Candidate& other) const {
    return std::pair(rank, place) > std::pair(other.rank, other.place);
  }
};

std::vector<Symbol> ListOf(const std::vector<int32_t>& ids) {
  std::vector<Symbol> symbols;
  symbols.reserve(ids.size());
  for (size_t i = 0; i < ids.size(); ++i)
    symbols.push_back({ids[i], i == 0 ? kNone : i - 1, i + 1 == ids.size() ? kNone : i + 1});
  return symbols;
}

}  // namespace

BytePairs::BytePairs(BytePairVocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {
  ranks_.reserve(vocabulary_.merges.size());
  for (const BytePairVocabulary::Merge& merge : vocabulary_.merges)
    ranks_.emplace(KeyOf(merge.left, merge.right), static_cast<uint32_t>(ranks_.size()));
}

std::optional<uint32_t> BytePairs::Rank(int32_t left, int32_t right) const {
  const auto found = ranks_.find(KeyOf(left, right));
  return found == ranks_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<int32_t> BytePairs::TokensOfBytes(std::string_view piece) const {
  std::vector<int32_t> ids;
  ids.reserve(piece.size());
  bool after_unknown = false;
  for (const char byte : piece) {
    const int32_t id = vocabulary_.byte_ids[static_cast<unsigned char>(byte)];
    const bool is_unknown = id == kNoToken;
    if (!is_unknown) ids.push_back(id);
    else if (vocabulary_.unknown.has_value() && !(after_unknown && vocabulary_.fuse_unknown))
      ids.push_back(*vocabulary_.unknown);
    after_unknown = is_unknown;
  }
  return ids;
}

void BytePairs::Encode(std::string_view piece, std::vector<int32_t>& ids) const {
  if (!vocabulary_.whole.empty()) {
    const auto found = vocabulary_.whole.find(std::string(piece));
    if (found != vocabulary_.whole.end()) {
      ids.push_back(found->second);
      return;
    }
  }
  std::vector<Symbol> symbols = ListOf(TokensOfBytes(piece));
  std::priority_queue<Candidate> candidates;
  const auto consider = [&](size_t place) {
    if (place == kNone || symbols[place].next == kNone) return;
    const std::optional<uint32_t> rank = Rank(symbols[place].id, symbols[symbols[place].next].id);
    if (rank.has_value()) candidates.push({*rank, place});
  };
  for (size_t place = 0; place < symbols.size(); ++place) consider(place);
  while (!candidates.empty()) {
    const Candidate top = candidates.top();
    candidates.pop();
    const BytePairVocabulary::Merge& merge = vocabulary_.merges[top.rank];
    Symbol& left = symbols[top.place];
    // One of the two may have been merged otherwise since.
    if (left.id != merge.left || left.next == kNone || symbols[left.next].id != merge.right) continue;
    Symbol& right = symbols[left.next];
    left.id = merge.result;
    left.next = right.next;
    right.id = kNoToken;
    if (left.next != kNone) symbols[left.next].previous = top.place;
    consider(left.previous);
    consider(top.place);
  }
  for (size_t place = symbols.empty() ? kNone : 0; place != kNone; place = symbols[place].next)
    ids.push_back(symbols[place].id);
}

}  // namespace meshwork
