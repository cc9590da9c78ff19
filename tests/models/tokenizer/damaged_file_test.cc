// What is said of a tokenizer.json that is damaged, or asks for something that is not supported.
#include <functional>
#include <string>
#include <vector>

#include "examples/llama/tokenizer.h"
#include "gtest/gtest.h"
#include "models/tokenizer/small_file.h"
#include "support/temp_dir.h"

namespace meshwork::tokenizer_test {
namespace {

// A change to a good file, and the message. $ stands for the path.
struct Damage {
  std::function<void(Json&)> change;
  std::string message;
};

class DamagedFileTest : public TempDirTest {
 protected:
  // Tokens: a 0, b 1, c 2, ab 3, <s> 4.
  static Json Good() {
    return {{"added_tokens", {Added(4, "<s>")}},
            {"pre_tokenizer", kGpt2Pieces},
            {"model",
             {{"type", "BPE"}, {"vocab", {{"a", 0}, {"b", 1}, {"c", 2}, {"ab", 3}}}, {"merges", {"a b"}}}}};
  }

  void ExpectErrors(absl::StatusCode code, const std::vector<Damage>& damages) const {
    for (const Damage& damage : damages) {
      Json json = Good();
      damage.change(json);
      const std::string path = File("tokenizer.json", json.dump());
      ExpectError(Tokenizer::Load(path).status(), code, path, damage.message);
    }
  }
  void ExpectInvalid(const std::vector<Damage>& damages) const {
    ExpectErrors(absl::StatusCode::kInvalidArgument, damages);
  }
  void ExpectUnsupported(const std::vector<Damage>& damages) const {
    ExpectErrors(absl::StatusCode::kUnimplemented, damages);
  }
};

TEST_F(DamagedFileTest, TheGoodOneIsRead) {
  EXPECT_EQ(Tokenizer::Load(File("tokenizer.json", Good().dump())).value().size(), 5);
}

TEST_F(DamagedFileTest, NoFileOfTheFormat) {
  ExpectError(Tokenizer::Load(Path("none.json")).status(), absl::StatusCode::kNotFound, Path("none.json"),
              "$: cannot be read: No such file or directory; check the path.");
  const auto error = [&](const std::string& text) {
    return std::string(MessageOf(Tokenizer::Load(File("tokenizer.json", text)).status()));
  };
  const std::string path = Path("tokenizer.json");
  EXPECT_EQ(error("{\"model\": x}"), path + ": it is no JSON, from its byte 11 on.");
  EXPECT_EQ(error(Good().dump().substr(0, 40)), path + ": it is no JSON, from its byte 41 on.");
  EXPECT_EQ(error(""), path + ": it is no JSON, from its byte 1 on.");
  EXPECT_EQ(error("[1e999]"), path + ": it has a number that is too large for double precision.");
  EXPECT_EQ(error("[]"), path + ": it is []; it must be an object.");
  EXPECT_EQ(error("{}"), path + ": it has no \"model\".");
  EXPECT_EQ(error(std::string(100000, '[') + std::string(100000, ']')),
            path + ": it is " + std::string(60, '[') + "…; it must be an object.");
}

TEST_F(DamagedFileTest, Ids) {
  const auto vocab = [](const char* token, Json id) {
    return [=](Json& json) { json["model"]["vocab"][token] = id; };
  };
  ExpectInvalid({
      {vocab("a", "0"), "$: model.vocab.a is \"0\"; it must be a whole number."},
      {vocab("a", 0.5), "$: model.vocab.a is 0.5; it must be a whole number."},
      {vocab("a", nullptr), "$: model.vocab.a is null; it must be a whole number."},
      {vocab("a", -1),
       "$: model.vocab.a is -1; it must be an id from 0 to 4; there are 5 tokens, and their ids have no gaps."},
      {vocab("a", uint64_t{1} << 63), "$: model.vocab.a is 9223372036854775808; it must be a whole number."},
      {vocab("a", int64_t{1} << 32),
       "$: model.vocab.a is 4294967296; it must be an id from 0 to 4; there are 5 tokens, and their ids have no "
       "gaps."},
      {vocab("a", 2), "$: the tokens \"a\" and \"c\" both have the id 2; every token has an id of its own."},
      {vocab("a", 4),
       "$: the tokens \"a\" and \"<s>\" both have the id 4; every token has an id of its own."},
      {[](Json& json) { json["model"]["vocab"].erase("c"); },
       "$: added_tokens[0].id is 4; it must be an id from 0 to 3; there are 4 tokens, and their ids have no gaps."},
      {[](Json& json) { json["model"]["vocab"] = Json::array(); },
       "$: model.vocab is []; it must be an object."},
      {[](Json& json) { json["model"].erase("vocab"); }, "$: model has no \"vocab\"."},
      {[](Json& json) {
         json["model"]["vocab"] = Json::object();
         json.erase("added_tokens");
       },
       "$: model.vocab is {}; it must be an object of tokens and their ids."},
      {[](Json& json) { json["model"]["unk_token"] = "?"; },
       "$: model.unk_token is \"?\"; it must be a token."},
  });
}

TEST_F(DamagedFileTest, AddedTokens) {
  const auto added = [](const Json& token) {
    return [=](Json& json) { json["added_tokens"].push_back(token); };
  };
  const auto first = [](const char* key, const Json& value) {
    return [=](Json& json) { json["added_tokens"][0][key] = value; };
  };
  ExpectInvalid({
      {[](Json& json) { json["added_tokens"] = "<s>"; }, "$: added_tokens is \"<s>\"; it must be a list."},
      {added(7), "$: added_tokens[1] is 7; it must be an object."},
      {added(Json::object()), "$: added_tokens[1] has no \"content\"."},
      {added({{"content", "x"}}), "$: added_tokens[1] has no \"id\"."},
      {added(Added(6, "x")),
       "$: added_tokens[1].id is 6; it must be an id from 0 to 5; there are 6 tokens, and their ids have no gaps."},
      {added(Added(-1, "x")),
       "$: added_tokens[1].id is -1; it must be an id from 0 to 5; there are 6 tokens, and their ids have no gaps."},
      {added(Added(4, "x")),
       "$: the tokens \"<s>\" and \"x\" both have the id 4; every token has an id of its own."},
      {added(Added(5, "<s>")), "$: added_tokens[1].content is \"<s>\"; it must be given once."},
      {added(Added(1, "a")), "$: added_tokens[1].id is 1; it must be 0, the id of the token in model.vocab."},
      {first("content", ""), "$: added_tokens[0].content is \"\"; it must be a text that is not empty."},
      {first("special", "yes"), "$: added_tokens[0].special is \"yes\"; it must be true or false."},
  });
  ExpectUnsupported({
      {first("lstrip", true),
       "$: added_tokens[0].lstrip is true; it must be false. Nothing else is supported."},
      {first("rstrip", true),
       "$: added_tokens[0].rstrip is true; it must be false. Nothing else is supported."},
      {first("single_word", true),
       "$: added_tokens[0].single_word is true; it must be false. Nothing else is supported."},
  });
}

TEST_F(DamagedFileTest, Merges) {
  const auto merge = [](const Json& pair) {
    return [=](Json& json) { json["model"]["merges"].push_back(pair); };
  };
  const std::string form = "; it must be two tokens, as \"a b\" or [\"a\",\"b\"].";
  ExpectInvalid({
      {[](Json& json) { json["model"]["merges"] = 1; }, "$: model.merges is 1; it must be a list."},
      {[](Json& json) { json["model"].erase("merges"); }, "$: model has no \"merges\"."},
      {merge("ab"), "$: model.merges[1] is \"ab\"" + form},
      {merge("a b c"), "$: model.merges[1] is \"a b c\"" + form},
      {merge(3), "$: model.merges[1] is 3" + form},
      {merge({"a", "b", "c"}), "$: model.merges[1] is [\"a\",\"b\",\"c\"]" + form},
      {merge({"a", 1}), "$: model.merges[1][1] is 1; it must be a string."},
      {merge("a x"),
       "$: model.merges[1] is \"a x\"; it must be of two tokens whose text together is a token; \"x\" is none."},
      {merge(" a"),
       "$: model.merges[1] is \" a\"; it must be of two tokens whose text together is a token; \"\" is none."},
      {merge({"ab", "c"}),
       "$: model.merges[1] is [\"ab\",\"c\"]; it must be of two tokens whose text together is a token; \"abc\" is "
       "none."},
      {merge({"a", "b"}), "$: model.merges[1] is [\"a\",\"b\"]; it must be given once."},
  });
}

TEST_F(DamagedFileTest, Model) {
  const auto model = [](const char* key, const Json& value) {
    return [=](Json& json) { json["model"][key] = value; };
  };
  ExpectInvalid({
      {model("type", 1), "$: model.type is 1; it must be a string."},
      {model("ignore_merges", 1), "$: model.ignore_merges is 1; it must be true or false."},
      {model("fuse_unk", "x"), "$: model.fuse_unk is \"x\"; it must be true or false."},
  });
  ExpectUnsupported({
      {model("type", "Unigram"),
       "$: model.type is \"Unigram\"; it must be \"BPE\". Nothing else is supported."},
      {model("dropout", 0.1), "$: model.dropout is 0.1; it must be null. Nothing else is supported."},
      {model("byte_fallback", true),
       "$: model.byte_fallback is true; it must be null. Nothing else is supported."},
      {model("continuing_subword_prefix", "##"),
       "$: model.continuing_subword_prefix is \"##\"; it must be null. Nothing else is supported."},
      {model("end_of_word_suffix", "</w>"),
       "$: model.end_of_word_suffix is \"</w>\"; it must be null. Nothing else is supported."},
      {[](Json& json) {
         json["normalizer"] = {{"type", "NFC"}};
       },
       "$: normalizer is {\"type\":\"NFC\"}; it must be null. Nothing else is supported."},
      {[](Json& json) {
         json["decoder"] = {{"type", "WordPiece"}};
       },
       "$: decoder.type is \"WordPiece\"; it must be \"ByteLevel\". Nothing else is supported."},
  });
}

TEST_F(DamagedFileTest, PreTokenizer) {
  const auto set = [](const Json& pre_tokenizer) {
    return [=](Json& json) { json["pre_tokenizer"] = pre_tokenizer; };
  };
  const auto split = [&](const char* key, const Json& value) {
    Json json = SplitBy("x");
    json[key] = value;
    return set(Sequence({json, kWholePieces}));
  };
  ExpectInvalid({
      {[](Json& json) { json.erase("pre_tokenizer"); }, "$: it has no \"pre_tokenizer\"."},
      {set(nullptr), "$: pre_tokenizer is null; it must be an object."},
      {set({{"type", "ByteLevel"}}), "$: pre_tokenizer has no \"add_prefix_space\"."},
      {set({{"type", "ByteLevel"}, {"add_prefix_space", 0}}),
       "$: pre_tokenizer.add_prefix_space is 0; it must be true or false."},
      {set({{"type", "Sequence"}}), "$: pre_tokenizer has no \"pretokenizers\"."},
      {set(Sequence({{{"type", "Digits"}}})),
       "$: pre_tokenizer.pretokenizers[0] has no \"individual_digits\"."},
      {split("pattern", {{"Regex", "(a"}}),
       "$: the pattern \"(a\" is no regular expression: missing closing parenthesis."},
  });
  ExpectUnsupported({
      {set({{"type", "Metaspace"}}),
       "$: pre_tokenizer.type is \"Metaspace\"; it must be \"ByteLevel\", or \"Sequence\" with \"ByteLevel\" at its "
       "end. Nothing else is supported."},
      {set(Sequence({Sequence({kWholePieces})})),
       "$: pre_tokenizer.pretokenizers[0].type is \"Sequence\"; it must be \"ByteLevel\", \"Digits\" or \"Split\". "
       "Nothing else is supported."},
      {set(Sequence({SplitBy("x")})),
       "$: pre_tokenizer is {\"pretokenizers\":[{\"behavior\":\"Isolated\",\"invert\":false,\"pat…; it must be "
       "\"ByteLevel\", or \"Sequence\" with \"ByteLevel\" at its end. Nothing else is supported."},
      {set(Sequence({kWholePieces, SplitBy("x")})),
       "$: pre_tokenizer.pretokenizers[1].type is \"Split\"; it must be in front of ByteLevel. Nothing else is "
       "supported."},
      {split("behavior", "Removed"),
       "$: pre_tokenizer.pretokenizers[0].behavior is \"Removed\"; it must be \"Isolated\". Nothing else is "
       "supported."},
      {split("invert", true),
       "$: pre_tokenizer.pretokenizers[0].invert is true; it must be false. Nothing else is supported."},
      {split("pattern", {{"String", "x"}}),
       "$: pre_tokenizer.pretokenizers[0].pattern is {\"String\":\"x\"}; it must be {\"Regex\": …}. Nothing else is "
       "supported."},
      {split("pattern", {{"Regex", "\\w"}}),
       "$: the pattern \"\\w\" has \\w, which is not supported; the escapes \\s, \\S, \\d, \\D, \\p, \\P, \\n, "
       "\\r, \\t, \\f and \\x are, and classes without classes in them."},
  });
}

TEST_F(DamagedFileTest, PostProcessor) {
  const auto ids = [](const Json& list) {
    return [=](Json& json) {
      json["post_processor"] = {{"type", "TemplateProcessing"},
                                {"single", {{{"SpecialToken", {{"id", "<s>"}}}}}},
                                {"special_tokens", {{"<s>", {{"ids", list}}}}}};
    };
  };
  const std::string place = "$: post_processor.special_tokens.<s>.ids";
  ExpectInvalid({
      {ids({5}),
       place + "[0] is 5; it must be an id from 0 to 4; there are 5 tokens, and their ids have no gaps."},
      {ids({"4"}), place + "[0] is \"4\"; it must be a whole number."},
      {ids(4), place + " is 4; it must be a list."},
      {[&](Json& json) {
         ids({4})(json);
         json["post_processor"]["special_tokens"] = Json::object();
       },
       "$: post_processor.special_tokens has no \"<s>\"."},
      {[](Json& json) { json["post_processor"] = Json::object(); }, "$: post_processor has no \"type\"."},
  });
  ExpectUnsupported({
      {ids({4, 4}), place + " is [4,4]; it must be one id. Nothing else is supported."},
  });
}

}  // namespace
}  // namespace meshwork::tokenizer_test
