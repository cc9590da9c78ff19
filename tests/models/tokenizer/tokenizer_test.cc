#include "examples/llama/tokenizer.h"

#include <cstdlib>
#include <string>
#include <vector>

#include "examples/llama/byte_text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/tokenizer/random_text.h"
#include "models/tokenizer/small_file.h"
#include "support/temp_dir.h"

namespace meshwork::tokenizer_test {
namespace {

using testing::ElementsAre;
using Ids = std::vector<int32_t>;

const std::string kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

class TokenizerTest : public TempDirTest {
 protected:
  Tokenizer Load(const Json& json) const {
    return Tokenizer::Load(File("tokenizer.json", json.dump())).value();
  }
};

TEST(BytesOfTest, EveryByteIsOneCharacter) {
  for (int byte = 0; byte < 256; ++byte)
    EXPECT_EQ(BytesOf(CharacterOf(byte)), std::string(1, static_cast<char>(byte))) << byte;
  EXPECT_EQ(BytesOf("Ġis"), " is");
  EXPECT_EQ(BytesOf("Ã©"), "é");
  EXPECT_EQ(BytesOf(""), "");
  for (const char* text : {" ", "\n", "\xc2\xa0", "ń", "日", "😀", "a b"})
    EXPECT_EQ(BytesOf(text), std::nullopt) << text;
}

TEST_F(TokenizerTest, MergesByRank) {
  const Tokenizer tokenizer =
      Load(SmallFile({{"l", "o"}, {"lo", "w"}, {"e", "r"}, {"w", "er"}, {" ", "low"}}));
  EXPECT_EQ(tokenizer.size(), 261);
  EXPECT_THAT(tokenizer.Encode("lower"), ElementsAre(257, 258));
  EXPECT_THAT(tokenizer.Encode("low low"), ElementsAre(257, 260));
  EXPECT_THAT(tokenizer.Encode("wer"), ElementsAre(259));
  EXPECT_THAT(tokenizer.Encode("l"), ElementsAre('l'));
  EXPECT_THAT(tokenizer.Encode(""), ElementsAre());
}

TEST_F(TokenizerTest, MergesMayBeLists) {
  Json json = SmallFile({{"l", "o"}, {" ", "lo"}});
  json["model"]["merges"] = Json::array({Json::array({"l", "o"}), Json::array({"Ġ", "lo"})});
  EXPECT_THAT(Load(json).Encode("lo lo"), ElementsAre(256, 257));
}

TEST_F(TokenizerTest, TheModelNeedsNoType) {
  Json json = SmallFile({{"l", "o"}});
  json["model"].erase("type");
  json.erase("added_tokens");
  json.erase("decoder");
  EXPECT_THAT(Load(json).Encode("lo"), ElementsAre(256));
}

TEST_F(TokenizerTest, DecodesWhatItEncodes) {
  const std::vector<std::pair<std::string, std::string>> merges = {
      {" ", " "}, {"  ", "  "}, {"1", "2"}, {"\xc3", "\xa9"}, {"\r", "\n"}, {"\xe4", "\xb8"}, {"'", "s"}};
  const Json digits = {{"type", "Digits"}, {"individual_digits", true}};
  for (const Json& pieces :
       {kGpt2Pieces, kWholePieces, Sequence({digits, kGpt2Pieces}),
        Sequence({SplitBy(kLlama3), kWholePieces}), Sequence({SplitBy("x*"), kGpt2Pieces})}) {
    const Tokenizer tokenizer = Load(SmallFile(merges, pieces, {"<s>", "\n\n", "é1"}));
    Random random(7);
    for (int i = 0; i < 200; ++i) {
      const uint64_t size = random.Below(40);
      for (const std::string& text : {RandomUtf8(random, size), RandomBytes(random, size)})
        EXPECT_EQ(tokenizer.Decode(tokenizer.Encode(text)), text) << pieces;
    }
  }
}

TEST_F(TokenizerTest, AddedTokensAreFoundFirst) {
  Json json = SmallFile({{"<", "s"}, {"s", "<"}, {"a", "b"}}, kWholePieces, {"<s>", "<s><t>", "b<"});
  json["added_tokens"].push_back(Added('a', "a", /*is_special=*/false));
  json["added_tokens"].push_back(Added(262, "a<", /*is_special=*/false));
  const Tokenizer tokenizer = Load(json);
  EXPECT_THAT(tokenizer.Encode("s<s>s"), ElementsAre('s', 259, 's'));
  EXPECT_THAT(tokenizer.Encode("<s><s><t><t>"), ElementsAre(259, 260, '<', 't', '>')) << "the longest";
  EXPECT_THAT(tokenizer.Encode("b<s>"), ElementsAre(261, 's', '>')) << "the leftmost";
  EXPECT_THAT(tokenizer.Encode("<s"), ElementsAre(256));
  EXPECT_THAT(tokenizer.Encode("a<s>a<"), ElementsAre('a', 259, 262)) << "normalized ones after the others";
  EXPECT_THAT(tokenizer.Encode("ab"), ElementsAre('a', 'b'));
  EXPECT_EQ(tokenizer.Find("<s>"), 259);
  EXPECT_EQ(tokenizer.Find("a"), 'a');
  EXPECT_EQ(tokenizer.Find("<s"), std::nullopt);
  EXPECT_EQ(tokenizer.Find("ab"), std::nullopt);
}

TEST_F(TokenizerTest, DecodeMayLeaveOutSpecialTokens) {
  Json json = SmallFile({}, kGpt2Pieces, {"<s>"});
  json["added_tokens"].push_back(Added(257, "é日 ", /*is_special=*/false));
  const Tokenizer tokenizer = Load(json);
  const Ids ids = {256, 'h', 257, 256, 'i', -1, 258, INT32_MAX};
  EXPECT_EQ(tokenizer.Decode(ids), "<s>hé日 <s>i");
  EXPECT_EQ(tokenizer.Decode(ids, {.skip_special = true}), "hé日 i");
}

TEST_F(TokenizerTest, AnAddedTokenMayBeInTheVocabulary) {
  Json json = SmallFile({{"<", "s"}});
  json["added_tokens"] = {Added(256, "<s")};
  const Tokenizer tokenizer = Load(json);
  EXPECT_EQ(tokenizer.size(), 257);
  EXPECT_EQ(tokenizer.Find("<s"), 256);
  EXPECT_THAT(tokenizer.Encode("a<s"), ElementsAre('a', 256));
}

TEST_F(TokenizerTest, IgnoreMergesTakesWholePieces) {
  Json json = SmallFile({{"a", "b"}, {"c", "d"}});
  json["model"]["vocab"]["abcd"] = 258;
  EXPECT_THAT(Load(json).Encode("abcd"), ElementsAre(256, 257));
  json["model"]["ignore_merges"] = true;
  EXPECT_THAT(Load(json).Encode("abcd"), ElementsAre(258));
  EXPECT_THAT(Load(json).Encode("abcdabcd"), ElementsAre(256, 257, 256, 257));
}

TEST_F(TokenizerTest, BytesWithoutATokenAreUnknown) {
  Json json = {{"pre_tokenizer", kWholePieces},
               {"model", {{"vocab", {{"a", 0}, {"b", 1}, {"?", 2}, {"ab", 3}}}, {"merges", {"a b"}}}}};
  EXPECT_THAT(Load(json).Encode("axyb"), ElementsAre(3)) << "left out";
  json["model"]["unk_token"] = "?";
  EXPECT_THAT(Load(json).Encode("axyb"), ElementsAre(0, 2, 2, 1));
  json["model"]["fuse_unk"] = true;
  EXPECT_THAT(Load(json).Encode("axybx"), ElementsAre(0, 2, 1, 2));
}

TEST_F(TokenizerTest, AddsTheFirstTokenOfTheTemplate) {
  Json json = SmallFile({}, kGpt2Pieces, {"<s>", "</s>"});
  EXPECT_EQ(Load(json).bos(), std::nullopt);
  EXPECT_THAT(Load(json).Encode("a", {.add_bos = true}), ElementsAre('a'));
  const Json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const auto special = [](const char* name) -> Json {
    return {{"SpecialToken", {{"id", name}, {"type_id", 0}}}};
  };
  Json processor = {{"type", "TemplateProcessing"},
                    {"single", {special("<s>"), text}},
                    {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {256}}, {"tokens", {"<s>"}}}}}}};
  json["post_processor"] = processor;
  EXPECT_EQ(Load(json).bos(), 256);
  EXPECT_THAT(Load(json).Encode("a"), ElementsAre('a'));
  EXPECT_THAT(Load(json).Encode("a", {.add_bos = true}), ElementsAre(256, 'a'));
  json["post_processor"] = {{"type", "Sequence"}, {"processors", {{{"type", "ByteLevel"}}, processor}}};
  EXPECT_EQ(Load(json).bos(), 256);
  processor["single"] = {text, special("</s>")};
  json["post_processor"] = processor;
  EXPECT_EQ(Load(json).bos(), std::nullopt);
}

TEST_F(TokenizerTest, ReadsSmolLm2) {
  const char* const folder = std::getenv("LLAMA_MODEL_DIR");
  if (folder == nullptr) GTEST_SKIP() << "LLAMA_MODEL_DIR names no folder with the tokenizer.json of SmolLM2";
  const absl::StatusOr<Tokenizer> tokenizer = Tokenizer::Load(std::string(folder) + "/tokenizer.json");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  if (tokenizer->size() != 49152 || tokenizer->Find("<|im_end|>") != 2)
    GTEST_SKIP() << "the tokenizer.json in LLAMA_MODEL_DIR is not that of SmolLM2";
  EXPECT_THAT(tokenizer->Encode("What is the capital of France?"),
              ElementsAre(1780, 314, 260, 3575, 282, 4649, 47));
  EXPECT_THAT(tokenizer->Encode("The capital of France is Paris."),
              ElementsAre(504, 3575, 282, 4649, 314, 7042, 30));
}

}  // namespace
}  // namespace meshwork::tokenizer_test
