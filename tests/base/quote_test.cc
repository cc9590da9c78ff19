#include "meshwork/base/quote.h"

#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "meshwork/base/utf8.h"

namespace meshwork::quote_test {
namespace {

TEST(QuoteTest, LeavesPlainTextsAsTheyAre) {
  for (const char* text : {"w", "dense/kernel:0", "a \"b\" \\c", "\u00e9\u4e2d\U0001F600"}) {
    EXPECT_EQ(Quoted(text), "\"" + std::string(text) + "\"");
    EXPECT_EQ(Printable(text), text);
    EXPECT_EQ(PrintableLines(text), text);
  }
  EXPECT_EQ(Quoted(""), "\"\"");
  EXPECT_EQ(Printable(""), "\"\"");
  EXPECT_EQ(PrintableLines("step.mw:3:\n\tx\n"), "step.mw:3:\n\tx\n");
}

TEST(QuoteTest, WritesOthersAsJsonDoes) {
  struct Case {
    std::string text, quoted, lines;
  };
  for (const Case& c : std::vector<Case>{
           {"a\x1b[31m\nok", R"("a\u001b[31m\nok")", "a\\u001b[31m\nok"},
           {"\r\"\\", R"("\r\"\\")", "\\r\"\\"},
           {std::string("\0x", 2), R"("\u0000x")", "\\u0000x"},
           {"\x7f", R"("\u007f")", "\\u007f"},
           {"\u009b31m", R"("\u009b31m")", "\\u009b31m"},  // the one-byte escape sequence of C1
           {"\u00a0\u00e9\n", "\"\u00a0\u00e9\\n\"", "\u00a0\u00e9\n"},
           {"\xff\xc3", R"("\ufffd\ufffd")", R"(\ufffd\ufffd)"},
       }) {
    EXPECT_EQ(Quoted(c.text), c.quoted);
    EXPECT_EQ(Printable(c.text), c.quoted);
    EXPECT_EQ(PrintableLines(c.text), c.lines);
  }
}

TEST(QuoteTest, CutsLongTexts) {
  EXPECT_EQ(Quoted(std::string(199, 'x')), "\"" + std::string(199, 'x') + "\"");
  EXPECT_EQ(Quoted(std::string(200, 'x')), "\"" + std::string(199, 'x') + "...\"");
  EXPECT_LE(Quoted(std::string(1000, '\x1b')).size(), 204u);
  EXPECT_EQ(Printable(std::string(1000, 'x')).size(), 1000u);
}

// Whatever the bytes: UTF-8 on one line, without control characters.
TEST(QuoteTest, HoldsNothingThatATerminalObeys) {
  uint64_t state = 1;
  for (int trial = 0; trial < 20000; ++trial) {
    std::string text;
    for (state = state * 6364136223846793005 + 1442695040888963407; text.size() < state >> 60;) {
      state = state * 6364136223846793005 + 1442695040888963407;
      text += static_cast<char>(state >> 56);
    }
    for (const std::string& shown : {Quoted(text), Printable(text), PrintableLines(text)}) {
      ASSERT_TRUE(IsUtf8(shown));
      for (const char c : shown) {
        const bool stays = c == '\n' || c == '\t';
        ASSERT_TRUE(static_cast<unsigned char>(c) >= 0x20 || stays) << shown;
        ASSERT_NE(c, '\x7f');
      }
      for (size_t at = 0; (at = shown.find('\xc2', at)) != std::string::npos; ++at)
        ASSERT_GE(static_cast<unsigned char>(shown[at + 1]), 0xa0) << shown;
    }
    ASSERT_EQ(Quoted(text).find('\n'), std::string::npos);
    ASSERT_EQ(Printable(text).find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace meshwork::quote_test
