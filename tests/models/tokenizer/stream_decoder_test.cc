#include "examples/llama/stream_decoder.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/utf8.h"
#include "models/tokenizer/random_text.h"
#include "models/tokenizer/small_file.h"
#include "support/temp_dir.h"

namespace meshwork::tokenizer_test {
namespace {

class StreamDecoderTest : public TempDirTest {
 protected:
  const Tokenizer tokenizer_ =
      Tokenizer::Load(
          File("tokenizer.json",
               SmallFile({{"\xa9", "\xc3"}, {"a", "\xf0"}, {"\x9f", "\x98"}}, kWholePieces, {"<s>"}).dump()))
          .value();

  // What is printed for each byte.
  std::vector<std::string> Printed(std::string_view bytes) const {
    StreamDecoder stream(tokenizer_);
    std::vector<std::string> printed;
    for (const char byte : bytes) printed.push_back(stream.Add(static_cast<unsigned char>(byte)));
    printed.push_back(stream.Finish());
    return printed;
  }
};

using Texts = std::vector<std::string>;

TEST_F(StreamDecoderTest, HoldsBackHalfACharacter) {
  EXPECT_EQ(Printed("aé"), Texts({"a", "", "é", ""}));
  EXPECT_EQ(Printed("日"), Texts({"", "", "日", ""}));
  EXPECT_EQ(Printed("😀!"), Texts({"", "", "", "😀", "!", ""}));
  EXPECT_EQ(Printed("\xf0\x9f\x98"), Texts({"", "", "", "\xf0\x9f\x98"}));
}

TEST_F(StreamDecoderTest, PassesOnWhatBecomesNoCharacter) {
  EXPECT_EQ(Printed("\xff"), Texts({"\xff", ""}));
  EXPECT_EQ(Printed("\xc3("), Texts({"", "\xc3(", ""}));
  EXPECT_EQ(Printed("\xc3\xc3\xa9"), Texts({"", "\xc3", "\xc3\xa9", ""}));
  EXPECT_EQ(Printed("\xe0\x80"), Texts({"", "\xe0\x80", ""})) << "overlong";
  EXPECT_EQ(Printed("\xed\xa0"), Texts({"", "\xed\xa0", ""})) << "a surrogate";
  EXPECT_EQ(Printed("\xf4\x90"), Texts({"", "\xf4\x90", ""})) << "beyond U+10FFFF";
  EXPECT_EQ(Printed("\xf4\x8f\xbf\xbf"), Texts({"", "", "", "\xf4\x8f\xbf\xbf", ""}));
}

TEST_F(StreamDecoderTest, ATokenMayEndOneCharacterAndBeginAnother) {
  StreamDecoder stream(tokenizer_);
  EXPECT_EQ(stream.Add(0xc3), "");
  EXPECT_EQ(stream.Add(256), "é");
  EXPECT_EQ(stream.Add(0xa9), "é");
  EXPECT_EQ(stream.Add(257), "a");
  EXPECT_EQ(stream.Add(258), "");
  EXPECT_EQ(stream.Add(0x80), "😀");
  EXPECT_EQ(stream.Finish(), "");
}

TEST_F(StreamDecoderTest, LeavesOutSpecialTokens) {
  StreamDecoder stream(tokenizer_, {.skip_special = true});
  EXPECT_EQ(stream.Add(0xc3), "");
  EXPECT_EQ(stream.Add(259), "");
  EXPECT_EQ(stream.Add(0xa9), "é");
}

TEST_F(StreamDecoderTest, ItsTextsAreThoseOfDecode) {
  Random random(5);
  for (int i = 0; i < 300; ++i) {
    const bool is_utf8 = i % 2 == 0;
    const std::string text =
        is_utf8 ? RandomUtf8(random, random.Below(20)) : RandomBytes(random, random.Below(20));
    StreamDecoder stream(tokenizer_);
    std::string together;
    for (const int32_t id : tokenizer_.Encode(text)) {
      const std::string added = stream.Add(id);
      EXPECT_TRUE(!is_utf8 || IsUtf8(added)) << text;
      together += added;
    }
    const std::string rest = stream.Finish();
    EXPECT_LE(rest.size(), is_utf8 ? 0u : 3u);
    EXPECT_EQ(together + rest, text);
  }
}

}  // namespace
}  // namespace meshwork::tokenizer_test
