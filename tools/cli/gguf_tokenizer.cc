#include "tools/cli/gguf_tokenizer.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "meshwork/base/json.h"
#include "meshwork/base/quote.h"
#include "meshwork/base/status.h"
#include "meshwork/base/utf8.h"
#include "nlohmann/json.hpp"
#include "tools/cli/gguf_metadata.h"

namespace meshwork::tools {
namespace {

using Json = nlohmann::ordered_json;

// Of tokenizer.ggml.token_type.
constexpr int64_t kControlToken = 3, kUserToken = 4;

// How Llama 3 cuts texts into words: contractions, letters, up to three digits, other signs, line ends, spaces.
constexpr const char* kLlama3Words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

Json ByteLevel(bool use_regex) {
  return {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", use_regex}};
}

Json Sequence(const Json& first, const Json& second) {
  return {{"type", "Sequence"}, {"pretokenizers", Json::array({first, second})}};
}

absl::StatusOr<Json> PreTokenizer(const GgufFile& file, const std::string& pre) {
  if (pre == "gpt-2" || pre == "default") return ByteLevel(/*use_regex=*/true);
  if (pre == "smollm")
    return Sequence({{"type", "Digits"}, {"individual_digits", true}}, ByteLevel(/*use_regex=*/true));
  if (pre == "llama-bpe") {
    const Json split = {{"type", "Split"},
                        {"pattern", {{"Regex", kLlama3Words}}},
                        {"behavior", "Isolated"},
                        {"invert", false}};
    return Sequence(split, ByteLevel(/*use_regex=*/false));
  }
  return InvalidArgument(
      "{}: tokenizer.ggml.pre is {}; smollm, llama-bpe, gpt-2 and default are known. Report the model.",
      file.path(), Quoted(pre));
}

absl::Status CheckTexts(const GgufFile& file, std::string_view key, const std::vector<std::string>& texts) {
  const auto wrong =
      std::find_if(texts.begin(), texts.end(), [](const std::string& text) { return !IsUtf8(text); });
  if (wrong == texts.end()) return absl::OkStatus();
  return InvalidArgument("{}: {}[{}] is {}, which is not UTF-8; tokenizer.json cannot hold it.", file.path(),
                         key, wrong - texts.begin(), Quoted(*wrong));
}

// Hugging Face's reader wants every field.
Json AddedToken(size_t id, const std::string& content, bool is_special) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", is_special}};
}

absl::StatusOr<Json> AddedTokens(const GgufFile& file, const std::vector<std::string>& tokens) {
  constexpr std::string_view kKey = "tokenizer.ggml.token_type";
  Json added = Json::array();
  const GgufValue* const value = file.FindMetadata(kKey);
  if (value == nullptr) return added;
  const auto* const array = std::get_if<GgufArray>(value);
  const auto* const types = array == nullptr ? nullptr : std::get_if<std::vector<int64_t>>(&array->items);
  if (types == nullptr || types->size() != tokens.size()) {
    return InvalidArgument("{}: {} must be an array of {}, one for each token.", file.path(), kKey,
                           Count(std::ssize(tokens), "whole number"));
  }
  for (size_t id = 0; id < tokens.size(); ++id)
    if ((*types)[id] == kControlToken || (*types)[id] == kUserToken)
      added.push_back(AddedToken(id, tokens[id], (*types)[id] == kControlToken));
  return added;
}

// {"token": id, …} in the order of ids. Error: two tokens are the same text.
absl::StatusOr<Json> Vocabulary(const GgufFile& file, const std::vector<std::string>& tokens) {
  std::map<std::string_view, size_t> ids;
  Json::object_t vocabulary;  // its own insertion would look at all tokens before
  for (size_t id = 0; id < tokens.size(); ++id) {
    const auto [first, is_new] = ids.emplace(tokens[id], id);
    if (!is_new) {
      return InvalidArgument("{}: tokens {} and {} are both {}; tokens must be unique.", file.path(),
                             first->second, id, Quoted(tokens[id]));
    }
    vocabulary.emplace_back(tokens[id], id);
  }
  return Json(std::move(vocabulary));
}

// Error: a merge is not two tokens with a space between them.
absl::Status CheckMerges(const GgufFile& file, const std::vector<std::string>& merges) {
  for (const std::string& merge : merges) {
    const size_t space = merge.find(' ');
    if (space == std::string::npos || space == 0 || space + 1 == merge.size() || merge.rfind(' ') != space)
      return InvalidArgument("{}: the merge {} is not two parts with a space between them.", file.path(),
                             Quoted(merge));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TokenizerJson> TokenizerOf(const GgufFile& file) {
  constexpr std::string_view kTokens = "tokenizer.ggml.tokens", kMerges = "tokenizer.ggml.merges",
                             kPre = "tokenizer.ggml.pre";
  if (file.FindMetadata("tokenizer.ggml.model") == nullptr)
    return TokenizerJson{.text = {}, .why = "the file has no tokenizer"};
  MESHWORK_ASSIGN_OR_RETURN(const std::string* const model, TextAt(file, "tokenizer.ggml.model"));
  if (*model != "gpt2") {
    return TokenizerJson{
        .text = {},
        .why =
            fmt::format("the tokenizer is {}; only gpt2, a byte-pair encoding, is imported", Quoted(*model))};
  }
  std::string pre = "default";
  if (file.FindMetadata(kPre) != nullptr) {
    MESHWORK_ASSIGN_OR_RETURN(const std::string* const given, TextAt(file, kPre));
    pre = *given;
  }
  MESHWORK_ASSIGN_OR_RETURN(const Json pre_tokenizer, PreTokenizer(file, pre));
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<std::string>* const tokens, TextsAt(file, kTokens));
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<std::string>* const merges, TextsAt(file, kMerges));
  MESHWORK_RETURN_IF_ERROR(CheckTexts(file, kTokens, *tokens));
  MESHWORK_RETURN_IF_ERROR(CheckTexts(file, kMerges, *merges));
  MESHWORK_RETURN_IF_ERROR(CheckMerges(file, *merges));
  MESHWORK_ASSIGN_OR_RETURN(Json added, AddedTokens(file, *tokens));
  MESHWORK_ASSIGN_OR_RETURN(Json vocabulary, Vocabulary(file, *tokens));
  // Llama 3 takes a word that is a token as it is, even where its merges lead elsewhere.
  const Json bpe = {{"type", "BPE"},
                    {"dropout", nullptr},
                    {"unk_token", nullptr},
                    {"continuing_subword_prefix", nullptr},
                    {"end_of_word_suffix", nullptr},
                    {"fuse_unk", false},
                    {"byte_fallback", false},
                    {"ignore_merges", pre == "llama-bpe"},
                    {"vocab", std::move(vocabulary)},
                    {"merges", *merges}};
  const Json json = {{"version", "1.0"},
                     {"truncation", nullptr},
                     {"padding", nullptr},
                     {"added_tokens", std::move(added)},
                     {"normalizer", nullptr},
                     {"pre_tokenizer", pre_tokenizer},
                     {"post_processor", nullptr},
                     {"decoder", ByteLevel(/*use_regex=*/true)},
                     {"model", bpe}};
  return TokenizerJson{
      .text = PrintJson(json), .why = {}, .tokens = std::ssize(*tokens), .merges = std::ssize(*merges)};
}

}  // namespace meshwork::tools
