// Tokens that stand in a text as they are, such as <|im_end|>, and are found before anything else is cut or merged.
//
//   const AddedTokens tokens({{.id = 7, .content = "<a>"}, {.id = 8, .content = "<a><b>"}});
//   tokens.Cut("x<a><b>y")   // text "x", token 8, text "y"
//
// Const functions may be called concurrently.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace meshwork {

struct AddedToken {
  int32_t id = 0;
  std::string content = {};
  bool is_special = false;     // it stands for no text of its own: DecodeOptions may leave it out
  bool is_normalized = false;  // it is looked for only where no other token was found
};

class AddedTokens {
 public:
  // REQUIRES: no content is empty, and no two are equal.
  explicit AddedTokens(std::vector<AddedToken> tokens);

  struct Part {
    std::string_view text;
    std::optional<int32_t> id;  // of the token, if it is one
  };
  // The text, cut into tokens and the texts between them. From the left, at each place the longest token is taken: first of
  // the tokens that are not normalized; then of the others, in the texts that are left. No part is empty.
  std::vector<Part> Cut(std::string_view text) const;

  const std::vector<AddedToken>& tokens() const { return tokens_; }
  std::optional<int32_t> Find(std::string_view content) const;

 private:
  void CutBy(bool is_normalized, std::string_view text, std::vector<Part>& parts) const;
  // The longest token that `text` begins with, or null.
  const AddedToken* TokenAt(bool is_normalized, std::string_view text) const;

  std::vector<AddedToken> tokens_;                      // the longest first
  std::array<std::vector<size_t>, 256> by_first_byte_;  // indices into tokens_, the longest first
};

}  // namespace meshwork
