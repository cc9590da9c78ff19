#include "examples/llama/utf8.h"

#include <string>

#include "gtest/gtest.h"
#include "meshwork/base/utf8.h"
#include "models/tokenizer/random_text.h"

namespace meshwork::tokenizer_test {
namespace {

TEST(CharacterSizeTest, IsThatOfTheLibrary) {
  // All first and second bytes; those that follow matter only by being continuations or not.
  for (int first = 0; first < 256; ++first)
    for (int second = 0; second < 256; ++second)
      for (const char* rest : {"", "\x80", "\xbf", "a", "\x80\x80", "\xbf\xbf", "\x80z"}) {
        const std::string text = {static_cast<char>(first), static_cast<char>(second)};
        EXPECT_EQ(CharacterSize(text + rest), Utf8Size(text + rest)) << first << " " << second << " " << rest;
      }
  for (uint32_t character = 1; character < 0x110000; character += 97) {
    const bool is_surrogate = character >= 0xd800 && character < 0xe000;
    const std::string text = Utf8Of(character);
    EXPECT_EQ(CharacterSize(text), is_surrogate ? 0 : text.size()) << character;
  }
}

}  // namespace
}  // namespace meshwork::tokenizer_test
