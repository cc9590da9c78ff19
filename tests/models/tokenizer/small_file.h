// A small tokenizer.json. The token of a byte has the byte as its id.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"

namespace meshwork::tokenizer_test {

using Json = nlohmann::ordered_json;

// The character that stands for a byte.
inline std::string CharacterOf(int byte) {
  const auto is_printable = [](int b) { return (b > 0x20 && b < 0x7f) || (b > 0xa0 && b != 0xad); };
  int character = byte;
  if (!is_printable(byte)) {
    character = 0x100;
    for (int before = 0; before < byte; ++before) character += is_printable(before) ? 0 : 1;
  }
  if (character < 0x80) return {static_cast<char>(character)};
  return {static_cast<char>(0xc0 | character >> 6), static_cast<char>(0x80 | (character & 0x3f))};
}

inline std::string CharactersOf(std::string_view bytes) {
  std::string characters;
  for (const char byte : bytes) characters += CharacterOf(static_cast<unsigned char>(byte));
  return characters;
}

inline const Json kGpt2Pieces = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
inline const Json kWholePieces = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};

inline Json Sequence(const std::vector<Json>& steps) {
  return {{"type", "Sequence"}, {"pretokenizers", steps}};
}

inline Json SplitBy(const std::string& regex) {
  return {{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}, {"invert", false}};
}

inline Json Added(int id, const std::string& content, bool is_special = true) {
  return {{"id", id},        {"content", content},        {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", !is_special}, {"special", is_special}};
}

// Merges of bytes. Their results are the tokens 256, 257, … in order. Special tokens follow.
inline Json SmallFile(const std::vector<std::pair<std::string, std::string>>& merges,
                      const Json& pre_tokenizer = kGpt2Pieces, const std::vector<std::string>& special = {}) {
  Json vocab = Json::object(), pairs = Json::array(), added = Json::array();
  int id = 0;
  while (id < 256) {
    const std::string character = CharacterOf(id);
    vocab[character] = id++;
  }
  for (const auto& [left, right] : merges) {
    pairs.push_back(CharactersOf(left) + " " + CharactersOf(right));
    const auto [token, is_new] = vocab.emplace(CharactersOf(left + right), id);
    if (is_new) ++id;
  }
  for (const std::string& content : special) added.push_back(Added(id++, content));
  return {{"version", "1.0"},
          {"added_tokens", added},
          {"normalizer", nullptr},
          {"pre_tokenizer", pre_tokenizer},
          {"post_processor", nullptr},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", {{"type", "BPE"}, {"unk_token", nullptr}, {"vocab", vocab}, {"merges", pairs}}}};
}

}  // namespace meshwork::tokenizer_test
