// A regular expression, as the patterns of tokenizer.json are written, and the pieces that its matches cut a text into.
//
//   MESHWORK_ASSIGN_OR_RETURN(const Regex regex, Regex::Compile(R"(\p{N}{1,3})"));
//   std::vector<std::string> pieces;
//   regex.Cut("in 2024!", pieces);   // "in ", "202", "4", "!"
//
// The syntax is the part that Oniguruma, which Hugging Face's tokenizers use, and PCRE2, which runs it here, have in
// common: groups, classes, Unicode's categories and scripts, lookahead and lookbehind. \s is what Unicode calls white
// space. Compile refuses other escapes by name, because the two may disagree about them.
//
// Copies share what was compiled. Const functions may be called concurrently.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace meshwork {

class Regex {
 public:
  // Errors: the pattern is no such expression. The message names no file: it begins with the pattern, in quotes.
  static absl::StatusOr<Regex> Compile(std::string_view pattern);

  // Appends the pieces of `text`: every match, and every text between matches. Empty pieces are left out. Together the
  // pieces are the text. If a match takes more than ten million steps, which only strange patterns do, the rest of the
  // text is one piece. REQUIRES: `text` is UTF-8.
  void Cut(std::string_view text, std::vector<std::string>& pieces) const;

 private:
  struct Code;
  explicit Regex(std::shared_ptr<const Code> code) : code_(std::move(code)) {}

  std::shared_ptr<const Code> code_;
};

}  // namespace meshwork
