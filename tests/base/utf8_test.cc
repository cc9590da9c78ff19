#include "meshwork/base/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace meshwork::utf8_test {
namespace {

// The encoding of one character by RFC 3629, section 3.
std::string Encoded(uint32_t c) {
  const auto rest = [&](int shift) { return static_cast<char>(0x80 | ((c >> shift) & 0x3f)); };
  if (c < 0x80) return {static_cast<char>(c)};
  if (c < 0x800) return {static_cast<char>(0xc0 | c >> 6), rest(0)};
  if (c < 0x10000) return {static_cast<char>(0xe0 | c >> 12), rest(6), rest(0)};
  return {static_cast<char>(0xf0 | c >> 18), rest(12), rest(6), rest(0)};
}

TEST(Utf8Test, KnowsEveryCharacterAndNoOther) {
  for (uint32_t c = 0; c < 0x120000; c += c < 0x20000 ? 1 : 37) {
    const std::string text = Encoded(c);
    const bool is_character = c < 0x110000 && (c < 0xd800 || c >= 0xe000);
    ASSERT_EQ(IsUtf8("a" + text + "b"), is_character) << c;
    ASSERT_EQ(Utf8Size(text), is_character ? text.size() : 0) << c;
  }
}

TEST(Utf8Test, RefusesBrokenForms) {
  EXPECT_TRUE(IsUtf8(""));
  for (const char* text :
       {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xf0\x8f\xbf\xbf", "\xe2\x82", "\xe2(\xa1", "\xff"})
    EXPECT_FALSE(IsUtf8(text)) << text;
}

}  // namespace
}  // namespace meshwork::utf8_test
