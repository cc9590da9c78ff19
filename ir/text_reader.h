// Reads the text of a program from its beginning on, piece by piece: words, numbers, values, brackets.
//
//   TextReader text("func f(%x: f32[4])", "program");
//   text.Keyword("func");   // OK
//   text.Word("a name");    // "f"
//   text.Take('{');         // program:1:7: expected {, found '('.
//
// It skips space and comments in front of every piece, and knows nothing of what the pieces mean. Not
// thread-safe: one thread uses a reader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace meshwork {

class TextReader {
 public:
  // Keeps both views until destroyed. `file`: what errors call the text.
  TextReader(std::string_view text, std::string_view file) : text_(text), file_(file) {}

  std::string_view file() const { return file_; }

  // ---- Places, in bytes from the beginning of the text.

  // How far the text has been read.
  size_t at() const { return at_; }
  // Goes back to a place that has been read.
  void GoTo(size_t at) { at_ = at; }
  // Skips space and comments; returns the place of the next character.
  size_t SkipSpace();
  // Whether nothing but space and comments follows.
  bool IsAtEnd() { return SkipSpace() >= text_.size(); }
  // The text from `start` up to at().
  std::string_view Since(size_t start) const { return text_.substr(start, at_ - start); }
  // The number of a line counts from 1. Cheap if places come in order: it counts on from the last one.
  int LineAt(size_t at);

  // ---- Errors, which show the line and the place; see base/text_error.h.

  absl::Status FailAt(size_t at, std::string_view message) const;
  // "expected …, found …", with the nearest of the words that may stand here.
  absl::Status Fail(std::string_view message, const std::vector<std::string>& words = {});

  // ---- Pieces. A function whose name begins with Try reads nothing where something else comes.

  // The next character; '\0' at the end of the text.
  char Peek();
  bool TryTake(char c);
  absl::Status Take(char c);
  // The word that comes next, "" if none does. Words are of letters, digits, _ and the characters of `extra`.
  std::string_view ReadWord(std::string_view extra = "");
  // The same. Error: no word comes; `what` says what is expected.
  absl::StatusOr<std::string> Word(std::string_view what, std::string_view extra = "");
  bool TryWord(std::string_view word);
  absl::Status Keyword(std::string_view word);
  // The text from the next character to its closing counterpart.
  absl::StatusOr<std::string_view> Bracketed(char open, char close);
  absl::StatusOr<int64_t> Int();
  // "[4,6]".
  absl::StatusOr<std::vector<int64_t>> Ints();
  absl::StatusOr<double> Float();
  // "x" of %x.
  absl::StatusOr<std::string> ValueName();

 private:
  std::string_view text_;
  std::string_view file_;
  size_t at_ = 0;
  size_t counted_to_ = 0;  // line_ is the line of this place
  int line_ = 1;
};

}  // namespace meshwork
