#include "errors/sources.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <set>

#include "fmt/format.h"

namespace meshwork {
namespace {

enum class TokenKind { kWord, kLiteral, kOther };

struct Token {
  TokenKind kind;
  std::string text;  // of a literal: what it stands for
  int line;
};

bool IsWordCharacter(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// Reads C++ as far as words, literals and brackets go.
class Scanner {
 public:
  explicit Scanner(std::string_view source) : source_(source) {}

  std::vector<Token> Scan() {
    while (at_ < source_.size()) {
      const char c = source_[at_];
      if (c == '\n') ++line_;
      if (StartsWith("//")) SkipTo("\n", 0);
      else if (StartsWith("/*")) SkipTo("*/", 2);
      else if (c == '#') SkipDirective();
      else if (StartsWith("R\"")) ReadRaw();
      else if (c == '"') ReadLiteral();
      else if (c == '\'') SkipCharacter();
      else if (IsWordCharacter(c)) ReadWord();
      else {
        if (!std::isspace(static_cast<unsigned char>(c))) tokens_.push_back({TokenKind::kOther, {c}, line_});
        ++at_;
      }
    }
    return std::move(tokens_);
  }

 private:
  bool StartsWith(std::string_view text) const { return source_.substr(at_).starts_with(text); }
  void SkipTo(std::string_view end, size_t beyond) {
    const size_t found = std::min(source_.find(end, at_ + 1), source_.size());
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<int64_t>(at_),
                                         source_.begin() + static_cast<int64_t>(found), '\n'));
    at_ = std::min(found + beyond, source_.size());
  }
  // Macros hold code too.
  void SkipDirective() {
    if (StartsWith("#define")) ++at_;
    else SkipTo("\n", 0);
  }
  void SkipCharacter() {
    // A digit separator, as in 1'000, is no character.
    if (at_ > 0 && std::isdigit(static_cast<unsigned char>(source_[at_ - 1]))) {
      ++at_;
      return;
    }
    for (++at_; at_ < source_.size() && source_[at_] != '\''; ++at_)
      if (source_[at_] == '\\') ++at_;
    ++at_;
  }
  void ReadWord() {
    const size_t start = at_;
    while (at_ < source_.size() && IsWordCharacter(source_[at_])) ++at_;
    tokens_.push_back({TokenKind::kWord, std::string(source_.substr(start, at_ - start)), line_});
  }
  void ReadRaw() {
    const size_t open = source_.find('(', at_);
    const std::string end = ")" + std::string(source_.substr(at_ + 2, open - at_ - 2)) + "\"";
    const size_t close = source_.find(end, open);
    AddLiteral(std::string(source_.substr(open + 1, close - open - 1)));
    SkipTo(end, end.size());
  }
  void ReadLiteral() {
    std::string text;
    for (++at_; at_ < source_.size() && source_[at_] != '"'; ++at_) {
      if (source_[at_] != '\\') {
        text += source_[at_];
        continue;
      }
      const char escaped = source_[++at_];
      text += escaped == 'n' ? '\n' : escaped;
    }
    ++at_;
    AddLiteral(std::move(text));
  }
  // Literals side by side are one.
  void AddLiteral(std::string text) {
    if (!tokens_.empty() && tokens_.back().kind == TokenKind::kLiteral) tokens_.back().text += text;
    else tokens_.push_back({TokenKind::kLiteral, std::move(text), line_});
  }

  std::string_view source_;
  size_t at_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
};

// Functions whose arguments become errors.
bool MakesErrors(const std::string& word) {
  static const std::set<std::string> kNames = {
      "InvalidArgument", "Annotate", "RecordError", "RecordMistake", "RecordMissing", "Error", "Fail",
      "FailAt",          "fail",     "Expected",    "Word",          "Keyword",       "NoSuch"};
  return kNames.contains(word) || (word.size() > 5 && word.ends_with("Error"));
}

bool EndsASentence(std::string_view literal) {
  return std::count(literal.begin(), literal.end(), ' ') >= 2 &&
         (literal.ends_with('.') || literal.ends_with('?'));
}

int64_t Letters(const std::vector<std::string>& pieces) {
  int64_t letters = 0;
  for (const std::string& piece : pieces)
    letters += std::count_if(piece.begin(), piece.end(), [](unsigned char c) { return std::isalpha(c); });
  return letters;
}

}  // namespace

std::vector<std::string> PiecesOf(std::string_view literal) {
  std::vector<std::string> pieces = {""};
  for (size_t i = 0; i < literal.size(); ++i) {
    const char c = literal[i];
    if ((c == '{' || c == '}') && literal.substr(i + 1).starts_with(c)) {
      pieces.back() += c;
      ++i;
    } else if (const size_t close = literal.find('}', i); c == '{' && close != std::string_view::npos) {
      pieces.emplace_back();
      i = close;
    } else {
      pieces.back() += c;
    }
  }
  return pieces;
}

bool MessagePattern::Matches(std::string_view text) const {
  size_t at = 0;
  for (const std::string& piece : pieces) {
    at = text.find(piece, at);
    if (at == std::string_view::npos) return false;
    at += piece.size();
  }
  return true;
}

std::vector<MessagePattern> MessagesOf(std::string_view file, std::string_view source) {
  const std::vector<Token> tokens = Scanner(source).Scan();
  std::vector<MessagePattern> messages;
  int depth = 0;
  std::vector<int> in_maker, left_out;  // the depths of the calls that are open
  for (size_t i = 0; i < tokens.size(); ++i) {
    const Token& token = tokens[i];
    const bool opens = token.text == "(" && token.kind == TokenKind::kOther;
    const bool closes = token.text == ")" && token.kind == TokenKind::kOther;
    if (opens && i > 0 && tokens[i - 1].kind == TokenKind::kWord) {
      if (MakesErrors(tokens[i - 1].text)) in_maker.push_back(depth);
      const bool logs =
          tokens[i - 1].text == "Log" && i + 1 < tokens.size() && tokens[i + 1].text == "LogLevel";
      if (logs || tokens[i - 1].text == "MESHWORK_CHECK") left_out.push_back(depth);
    }
    depth += opens ? 1 : closes ? -1 : 0;
    if (closes && !in_maker.empty() && in_maker.back() == depth) in_maker.pop_back();
    if (closes && !left_out.empty() && left_out.back() == depth) left_out.pop_back();
    if (token.kind != TokenKind::kLiteral || !left_out.empty()) continue;
    std::vector<std::string> pieces = PiecesOf(token.text);
    if (EndsASentence(token.text) || (!in_maker.empty() && Letters(pieces) >= 4))
      messages.push_back({fmt::format("{}:{}", file, token.line), token.text, std::move(pieces)});
  }
  return messages;
}

}  // namespace meshwork
