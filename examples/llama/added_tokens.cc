#include "examples/llama/added_tokens.h"

#include <algorithm>
#include <utility>

namespace meshwork {

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::stable_sort(tokens_.begin(), tokens_.end(), [](const AddedToken& a, const AddedToken& b) {
    return a.content.size() > b.content.size();
  });
  for (size_t i = 0; i < tokens_.size(); ++i)
    by_first_byte_[static_cast<unsigned char>(tokens_[i].content[0])].push_back(i);
}

std::optional<int32_t> AddedTokens::Find(std::string_view content) const {
  for (const AddedToken& token : tokens_)
    if (token.content == content) return token.id;
  return std::nullopt;
}

const AddedToken* AddedTokens::TokenAt(bool is_normalized, std::string_view text) const {
  for (const size_t i : by_first_byte_[static_cast<unsigned char>(text[0])])
    if (tokens_[i].is_normalized == is_normalized && text.starts_with(tokens_[i].content)) return &tokens_[i];
  return nullptr;
}

void AddedTokens::CutBy(bool is_normalized, std::string_view text, std::vector<Part>& parts) const {
  size_t begin = 0;  // of the text since the last token
  const auto add_text = [&](size_t end) {
    if (begin < end) parts.push_back({text.substr(begin, end - begin), std::nullopt});
  };
  for (size_t i = 0; i < text.size();) {
    const AddedToken* const token = TokenAt(is_normalized, text.substr(i));
    if (token == nullptr) {
      ++i;
      continue;
    }
    add_text(i);
    parts.push_back({text.substr(i, token->content.size()), token->id});
    begin = i += token->content.size();
  }
  add_text(text.size());
}

std::vector<AddedTokens::Part> AddedTokens::Cut(std::string_view text) const {
  std::vector<Part> parts, all;
  CutBy(/*is_normalized=*/false, text, parts);
  for (const Part& part : parts) {
    if (part.id.has_value()) all.push_back(part);
    else CutBy(/*is_normalized=*/true, part.text, all);
  }
  return all;
}

}  // namespace meshwork
