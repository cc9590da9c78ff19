#include "meshwork/ir/text_reader.h"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "absl/strings/ascii.h"
#include "meshwork/base/status.h"
#include "meshwork/base/suggest.h"
#include "meshwork/base/text_error.h"

namespace meshwork {

size_t TextReader::SkipSpace() {
  while (at_ < text_.size()) {
    if (absl::ascii_isspace(static_cast<unsigned char>(text_[at_]))) {
      ++at_;
    } else if (text_.substr(at_, 2) == "//") {
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    } else {
      break;
    }
  }
  return at_;
}

int TextReader::LineAt(size_t at) {
  if (at < counted_to_) counted_to_ = 0, line_ = 1;
  line_ += static_cast<int>(std::count(text_.begin() + static_cast<int64_t>(counted_to_),
                                       text_.begin() + static_cast<int64_t>(at), '\n'));
  counted_to_ = at;
  return line_;
}

absl::Status TextReader::FailAt(size_t at, std::string_view message) const {
  return ErrorAt(text_, file_, at, message);
}

absl::Status TextReader::Fail(std::string_view message, const std::vector<std::string>& words) {
  constexpr size_t kMostShown = 32;
  SkipSpace();
  const size_t start = at_;
  const std::string word(ReadWord());
  at_ = start;
  if (word.size() < 2 || word.size() > kMostShown)
    return FailAt(start, fmt::format("{}, found {}.", message, CharacterAt(text_, start)));
  const std::string hint = DidYouMean(word, words);
  return FailAt(start, fmt::format("{}, found \"{}\"{}", message, word, hint.empty() ? "." : hint));
}

char TextReader::Peek() {
  SkipSpace();
  return at_ < text_.size() ? text_[at_] : '\0';
}

bool TextReader::TryTake(char c) {
  if (Peek() != c) return false;
  ++at_;
  return true;
}

absl::Status TextReader::Take(char c) {
  return TryTake(c) ? absl::OkStatus() : Fail(fmt::format("expected {}", c));
}

std::string_view TextReader::ReadWord(std::string_view extra) {
  SkipSpace();
  const size_t start = at_;
  while (at_ < text_.size() && text_.substr(at_, 2) != "//" &&
         (absl::ascii_isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_' ||
          extra.find(text_[at_]) != std::string_view::npos)) {
    ++at_;
  }
  return text_.substr(start, at_ - start);
}

absl::StatusOr<std::string> TextReader::Word(std::string_view what, std::string_view extra) {
  const std::string_view word = ReadWord(extra);
  if (word.empty()) return Fail(fmt::format("expected {}", what));
  return std::string(word);
}

bool TextReader::TryWord(std::string_view word) {
  const size_t start = at_;
  if (ReadWord() == word) return true;
  at_ = start;
  return false;
}

absl::Status TextReader::Keyword(std::string_view word) {
  if (TryWord(word)) return absl::OkStatus();
  return Fail(fmt::format("expected \"{}\"", word), {std::string(word)});
}

absl::StatusOr<std::string_view> TextReader::Bracketed(char open, char close) {
  if (Peek() != open) return Fail(fmt::format("expected {}", open));
  const size_t end = text_.find(close, at_);
  if (end == std::string_view::npos) return FailAt(at_, fmt::format("this {} is never closed.", open));
  std::string_view inside = text_.substr(at_, end + 1 - at_);
  at_ = end + 1;
  return inside;
}

absl::StatusOr<int64_t> TextReader::Int() {
  SkipSpace();
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
  if (error == std::errc::result_out_of_range) return FailAt(at_, "this number does not fit 64 bits.");
  if (error != std::errc()) return Fail("expected a whole number");
  at_ = static_cast<size_t>(end - text_.data());
  return value;
}

absl::StatusOr<std::vector<int64_t>> TextReader::Ints() {
  MESHWORK_RETURN_IF_ERROR(Take('['));
  std::vector<int64_t> list;
  if (TryTake(']')) return list;
  do {
    MESHWORK_ASSIGN_OR_RETURN(int64_t value, Int());
    list.push_back(value);
  } while (TryTake(','));
  MESHWORK_RETURN_IF_ERROR(Take(']'));
  return list;
}

absl::StatusOr<double> TextReader::Float() {
  SkipSpace();
  double value = 0;
  const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
  if (error == std::errc::result_out_of_range) return FailAt(at_, "this number does not fit a double.");
  if (error != std::errc()) return Fail("expected a number");
  at_ = static_cast<size_t>(end - text_.data());
  return value;
}

absl::StatusOr<std::string> TextReader::ValueName() {
  MESHWORK_RETURN_IF_ERROR(Take('%'));
  const size_t start = at_;
  absl::StatusOr<std::string> name = Word("a value name", "./-");
  if (name.ok() && at_ - start != name->size())
    return FailAt(start, fmt::format("expected a value name, found {}.", CharacterAt(text_, start)));
  return name;
}

}  // namespace meshwork
