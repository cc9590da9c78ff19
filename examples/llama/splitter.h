// Cuts a text into pieces, in which a tokenizer then merges bytes. No token reaches over the end of a piece.
//
// For SmolLM2, which cuts around each digit, then by the pattern of GPT-2:
//
//   const Splitter splitter({{.cut = digit}, {.cut = gpt2}});
//   splitter.Split("It's 42  miles")   // "It", "'s", " ", "4", "2", " ", " miles"
//
// Const functions may be called concurrently.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "examples/llama/regex.h"

namespace meshwork {

// The pattern of GPT-2, for pre-tokenizers ByteLevel with use_regex.
inline constexpr std::string_view kGpt2Pattern =
    R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

struct SplitStep {
  std::optional<Regex> cut;       // cuts every piece of the steps before; nothing: cuts none
  bool add_prefix_space = false;  // before it cuts, a space goes in front of each piece that begins with none
};

class Splitter {
 public:
  explicit Splitter(std::vector<SplitStep> steps) : steps_(std::move(steps)) {}

  // The pieces, none of which is empty. Without add_prefix_space, they are the text, if put together. Bytes that are not
  // UTF-8 are pieces of their own, the longest possible, and take no part in the steps.
  std::vector<std::string> Split(std::string_view text) const;

 private:
  void SplitUtf8(std::string_view text, std::vector<std::string>& pieces) const;

  std::vector<SplitStep> steps_;
};

}  // namespace meshwork
