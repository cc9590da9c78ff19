#include "examples/llama/splitter.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "models/tokenizer/random_text.h"

namespace meshwork::tokenizer_test {
namespace {

using Pieces = std::vector<std::string>;

Splitter SplitterOf(const std::vector<std::string_view>& patterns) {
  std::vector<SplitStep> steps;
  for (const std::string_view pattern : patterns) steps.push_back({.cut = Regex::Compile(pattern).value()});
  return Splitter(std::move(steps));
}

void ExpectPieces(const Splitter& splitter, const std::vector<std::pair<std::string, Pieces>>& cases) {
  for (const auto& [text, pieces] : cases) EXPECT_EQ(splitter.Split(text), pieces) << text;
}

TEST(SplitterTest, Gpt2) {
  ExpectPieces(
      SplitterOf({kGpt2Pattern}),
      {{"", {}},
       {"Hello world!", {"Hello", " world", "!"}},
       {"It's we'll they've I'm you're he'd don't",
        {"It", "'s", " we", "'ll", " they", "'ve", " I", "'m", " you", "'re", " he", "'d", " don", "'t"}},
       {"IT'S 'x", {"IT", "'", "S", " '", "x"}},
       {"a  b", {"a", " ", " b"}},
       {"a   \n", {"a", "   \n"}},
       {"a\n\nb", {"a", "\n", "\n", "b"}},
       {"  ", {"  "}},
       {" 42miles x² ½", {" 42", "miles", " x", "²", " ½"}},
       {"naïve 日本語、です", {"naïve", " 日本語", "、", "です"}},
       {"e\u0301t", {"e", "\u0301", "t"}},
       {"a\u00a0\u00a0b", {"a", "\u00a0", "\u00a0", "b"}},
       {"a\u0085b\u180ec", {"a", "\u0085", "b", "\u180e", "c"}},
       {"😀👍🏽 !", {"😀👍🏽", " !"}}});
}

TEST(SplitterTest, StepsCutThePiecesOfThoseBefore) {
  ExpectPieces(SplitterOf({R"(\p{N})", kGpt2Pattern}),
               {{"It's 42  miles", {"It", "'s", " ", "4", "2", " ", " miles"}}, {"Ⅳ٣", {"Ⅳ", "٣"}}});
  ExpectPieces(SplitterOf({R"(\p{N}+)"}), {{"a12b3", {"a", "12", "b", "3"}}});
  ExpectPieces(SplitterOf({}), {{"a b", {"a b"}}, {"", {}}});
}

TEST(SplitterTest, APrefixSpaceGoesBeforeEachPiece) {
  const Splitter splitter({{.cut = Regex::Compile("[0-9]").value()},
                           {.cut = Regex::Compile(kGpt2Pattern).value(), .add_prefix_space = true}});
  ExpectPieces(splitter, {{"a1 b", {" a", " 1", " b"}}, {"", {}}});
}

TEST(SplitterTest, BrokenBytesArePiecesOfTheirOwn) {
  ExpectPieces(SplitterOf({kGpt2Pattern}), {{"a\xff\xfe b\xc3", {"a", "\xff\xfe", " b", "\xc3"}},
                                            {"\x80", {"\x80"}},
                                            {"\xed\xa0\x80x", {"\xed\xa0\x80", "x"}}});
}

TEST(SplitterTest, PiecesAreTheText) {
  const Splitter splitter = SplitterOf({R"((?=\p{Lu}))", kGpt2Pattern, "x*"});
  Random random(3);
  for (int i = 0; i < 300; ++i) {
    const std::string text = RandomUtf8(random, random.Below(30)) + RandomBytes(random, random.Below(5));
    std::string together;
    for (const std::string& piece : splitter.Split(text)) {
      EXPECT_FALSE(piece.empty());
      together += piece;
    }
    EXPECT_EQ(together, text);
  }
}

TEST(RegexTest, EmptyMatchesCut) {
  ExpectPieces(SplitterOf({"x*"}), {{"axxbé", {"a", "xx", "b", "é"}}, {"xx", {"xx"}}});
  ExpectPieces(SplitterOf({"(?=[A-Z])"}), {{"HelloWorldX", {"Hello", "World", "X"}}});
  ExpectPieces(SplitterOf({"(?<=,)|$"}), {{"a,b,\nc", {"a,", "b,", "\nc"}}});
}

TEST(RegexTest, ClassesMayHaveEscapes) {
  ExpectPieces(SplitterOf({R"([\s\d]+)"}), {{"a 1\u00a02b", {"a", " 1\u00a02", "b"}}});
  ExpectPieces(SplitterOf({R"([^\S\n]+)"}), {{"a \t\n b", {"a", " \t", "\n", " ", "b"}}});
  ExpectPieces(SplitterOf({R"([]a\]\-]+)"}), {{"x]a-]y", {"x", "]a-]", "y"}}});
  ExpectPieces(SplitterOf({R"([^]]+)"}), {{"]x]y", {"]", "x", "]", "y"}}});
  ExpectPieces(SplitterOf({R"(\[\S)"}), {{"a[b] [ ", {"a", "[b", "] [ "}}});
}

TEST(RegexTest, ASearchThatTakesTooLongLeavesTheRestWhole) {
  const std::string text = std::string(60, 'a') + "c";
  ExpectPieces(SplitterOf({"b|(?:a|aa)+$"}), {{"b" + text, {"b", text}}});
}

TEST(RegexTest, DeepMatchesNeedNoDeepStack) {
  const std::string text(300000, 'a');
  ExpectPieces(SplitterOf({"(?:(a)|b)+"}), {{text + "c", {text, "c"}}});
}

TEST(RegexTest, RefusesByName) {
  const std::string rule =
      ", which is not supported; the escapes \\s, \\S, \\d, \\D, \\p, \\P, \\n, \\r, \\t, \\f and \\x are, and "
      "classes without classes in them.";
  for (const auto& [pattern, what] :
       std::vector<std::pair<std::string, std::string>>{{R"(\w+)", "\\w"},
                                                        {R"(a\b)", "\\b"},
                                                        {R"([\h])", "\\h"},
                                                        {R"((a)\1)", "\\1"},
                                                        {"[a[b]]", "[ in a class"},
                                                        {"[a-z&&[^b]]", "&& in a class"}}) {
    const absl::Status status = Regex::Compile(pattern).status();
    EXPECT_EQ(MessageOf(status), fmt::format("the pattern \"{}\" has {}{}", pattern, what, rule));
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  }
}

TEST(RegexTest, SaysWhatIsWrong) {
  const auto error = [](std::string_view pattern) {
    return std::string(Regex::Compile(pattern).status().message());
  };
  EXPECT_EQ(error("(a"), "the pattern \"(a\" is no regular expression: missing closing parenthesis.");
  EXPECT_EQ(error("a\\"), "the pattern \"a\\\" is no regular expression: \\ at end of pattern.");
  EXPECT_EQ(error(R"(\p{Letters})"),
            "the pattern \"\\p{Letters}\" is no regular expression: unknown property after \\P or \\p.");
}

}  // namespace
}  // namespace meshwork::tokenizer_test
