// The grammar of docs/text-format.md derives the programs that the parser reads.
#include <cctype>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "docs/page.h"
#include "docs/pages.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/text.h"
#include "support/golden.h"

namespace meshwork::grammar_test {
namespace {

constexpr const char* kPage = "docs/text-format.md";

// The contents of the page's blocks that are marked `language`, however they are checked.
std::vector<std::string> Blocks(std::string_view language) {
  std::vector<std::string> texts;
  for (docs::FencedBlock& block : docs::ReadBlocks(docs::Root(), kPage))
    if (block.language == language) texts.push_back(std::move(block.text));
  return texts;
}

// Decides what an EBNF text derives, by trying all choices.
class Grammar {
 public:
  explicit Grammar(std::string text) : text_(std::move(text)) {
    while (Peek() != '\0') {
      const std::string name = Name();
      Take('=');
      rules_[name] = Choice();
      Take(';');
    }
  }

  bool Derives(const std::string& rule, std::string_view text) const {
    for (size_t end : Ends(*rules_.at(rule), text, 0, /*in_token=*/false))
      if (SkipSpace(text, end) == text.size()) return true;
    return false;
  }

 private:
  enum class Kind { kWords, kRule, kSequence, kChoice, kOptional, kRepeated };
  struct Expression {
    Kind kind;
    std::string text;  // of words and rules
    std::vector<std::unique_ptr<Expression>> parts;
  };
  using Pointer = std::unique_ptr<Expression>;

  // ---- Reading the grammar.

  char Peek() {
    at_ = std::min(text_.find_first_not_of(" \n", at_), text_.size());
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  void Take(char c) {
    MESHWORK_CHECK(Peek() == c, "{} at {}", c, text_.substr(at_, 40));
    ++at_;
  }
  std::string Name() {
    Peek();
    const size_t begin = at_;
    while (at_ < text_.size() && std::isalpha(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
    MESHWORK_CHECK(at_ > begin, "no name at {}", text_.substr(at_, 40));
    return text_.substr(begin, at_ - begin);
  }
  Pointer Make(Kind kind, Pointer part) {
    auto made = std::make_unique<Expression>(Expression{kind, "", {}});
    made->parts.push_back(std::move(part));
    return made;
  }
  Pointer Choice() {
    Pointer choice = Make(Kind::kChoice, Sequence());
    while (Peek() == '|') {
      Take('|');
      choice->parts.push_back(Sequence());
    }
    return choice;
  }
  Pointer Sequence() {
    Pointer sequence = Make(Kind::kSequence, Part());
    while (std::string_view("|;)]}").find(Peek()) == std::string_view::npos)
      sequence->parts.push_back(Part());
    return sequence;
  }
  Pointer Part() {
    switch (Peek()) {
      case '"': {
        const size_t begin = ++at_;
        at_ = text_.find('"', begin) + 1;
        return std::make_unique<Expression>(
            Expression{Kind::kWords, text_.substr(begin, at_ - 1 - begin), {}});
      }
      case '[': return Bracketed(Kind::kOptional, '[', ']');
      case '{': return Bracketed(Kind::kRepeated, '{', '}');
      case '(': return Bracketed(Kind::kSequence, '(', ')');
      default: return std::make_unique<Expression>(Expression{Kind::kRule, Name(), {}});
    }
  }
  Pointer Bracketed(Kind kind, char open, char close) {
    Take(open);
    Pointer inside = Make(kind, Choice());
    Take(close);
    return inside;
  }

  // ---- Deriving.

  static size_t SkipSpace(std::string_view text, size_t at) {
    while (at < text.size()) {
      if (text.substr(at, 2) == "//") at = std::min(text.find('\n', at), text.size());
      else if (std::isspace(static_cast<unsigned char>(text[at])) != 0) ++at;
      else break;
    }
    return at;
  }

  // The possible ends of a text that the expression derives from text[at] on.
  std::set<size_t> Ends(const Expression& e, std::string_view text, size_t at, bool in_token) const {
    switch (e.kind) {
      case Kind::kWords: {
        if (!in_token) at = SkipSpace(text, at);
        if (text.substr(at, e.text.size()) == e.text) return {at + e.text.size()};
        return {};
      }
      case Kind::kRule: return EndsOfRule(e.text, text, at, in_token);
      case Kind::kOptional: {
        std::set<size_t> ends = Ends(*e.parts[0], text, at, in_token);
        ends.insert(at);
        return ends;
      }
      case Kind::kChoice: {
        std::set<size_t> ends;
        for (const Pointer& part : e.parts) ends.merge(Ends(*part, text, at, in_token));
        return ends;
      }
      case Kind::kSequence: {
        std::set<size_t> ends = {at};
        for (const Pointer& part : e.parts) ends = EndsAfter(*part, text, ends, in_token);
        return ends;
      }
      case Kind::kRepeated: break;
    }
    std::set<size_t> ends = {at}, last = {at};
    while (!last.empty()) {
      last = EndsAfter(*e.parts[0], text, last, in_token);
      for (size_t end : ends) last.erase(end);
      ends.insert(last.begin(), last.end());
    }
    return ends;
  }
  std::set<size_t> EndsAfter(const Expression& e, std::string_view text, const std::set<size_t>& starts,
                             bool in_token) const {
    std::set<size_t> ends;
    for (size_t start : starts) ends.merge(Ends(e, text, start, in_token));
    return ends;
  }
  // A token ends only where it cannot be longer.
  std::set<size_t> EndsOfRule(const std::string& rule, std::string_view text, size_t at,
                              bool in_token) const {
    static const std::set<std::string> kTokens = {"word", "value", "name", "int", "real"};
    if (rule == "letter" || rule == "digit") {
      const bool fits =
          at < text.size() && (rule == "digit" ? std::isdigit(static_cast<unsigned char>(text[at]))
                                               : std::isalpha(static_cast<unsigned char>(text[at]))) != 0;
      return fits ? std::set<size_t>{at + 1} : std::set<size_t>{};
    }
    const bool token = kTokens.contains(rule);
    if (token && !in_token) at = SkipSpace(text, at);
    std::set<size_t> ends = Ends(*rules_.at(rule), text, at, in_token || token);
    if (token && !ends.empty()) ends = {*ends.rbegin()};
    return ends;
  }

  std::string text_;
  size_t at_ = 0;
  std::map<std::string, Pointer> rules_;
};

// The grammar's lists of words are those of the code.
TEST(GrammarTest, NamesEveryDTypeAndReduction) {
  auto choice = [](const auto& all, auto name_of) {
    std::string text;
    for (const auto& item : all) text += fmt::format("{}\"{}\"", text.empty() ? "" : " | ", name_of(item));
    return text;
  };
  const std::string document = Blocks("ebnf").at(0);
  EXPECT_NE(document.find("dtype      = " + choice(kAllDTypes, DTypeName) + " ;"), std::string::npos);
  EXPECT_NE(document.find("reduction  = " + choice(kAllReduceOps, ReduceOpName) + " ;"), std::string::npos);
}

// Every program of the golden files can be derived from the grammar, and nothing that the parser refuses for
// its form.
TEST(GrammarTest, DerivesTheGoldenPrograms) {
  const Grammar grammar(Blocks("ebnf").at(0));
  int programs = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(GoldenPath("spmd"))) {
    if (entry.path().extension() != ".mw") continue;
    const std::string text =
        ReadGolden("spmd/" + std::filesystem::relative(entry.path(), GoldenPath("spmd")).string());
    const size_t line = text.find("----\n");
    EXPECT_TRUE(grammar.Derives("program", text.substr(0, line))) << entry.path();
    if (line != std::string::npos) {
      EXPECT_TRUE(grammar.Derives("program", text.substr(line + 5))) << entry.path();
    }
    ++programs;
  }
  EXPECT_GT(programs, 50);
  for (const std::string& example : Blocks("mw")) EXPECT_TRUE(grammar.Derives("program", example)) << example;
  for (std::string_view wrong :
       {"mesh [] func f() {", "mesh [a] func f() {}", "mesh [] func f(x: f32[]) {}",
        "mesh [] func f(%x: f33[]) {}", "mesh [] func f() { return }", "mesh [] func f() { %x = }",
        "mesh [] func f(%x: f32[] {_,}) {}", "mesh [] func f(%x: f32[1] {2@a}) {}",
        "mesh [] func f() { return %x %y = neg %x }"}) {
    EXPECT_FALSE(grammar.Derives("program", wrong)) << wrong;
    EXPECT_FALSE(ParseGraph(wrong).ok()) << wrong;
  }
}

}  // namespace
}  // namespace meshwork::grammar_test
