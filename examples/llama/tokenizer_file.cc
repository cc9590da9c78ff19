#include "examples/llama/tokenizer_file.h"

#include <set>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "examples/llama/byte_text.h"
#include "examples/llama/json_value.h"
#include "meshwork/base/quote.h"
#include "meshwork/base/status.h"

namespace meshwork {
namespace {

// All that is checked while the parts of the file are read.
class FileReader {
 public:
  FileReader(const std::string& path, const JsonValue& root) : path_(path), root_(root) {}

  absl::StatusOr<TokenizerFile> Read() {
    MESHWORK_RETURN_IF_ERROR(CheckUnused());
    MESHWORK_ASSIGN_OR_RETURN(const JsonValue model, root_.Get("model"));
    MESHWORK_RETURN_IF_ERROR(CheckModel(model));
    MESHWORK_RETURN_IF_ERROR(ReadIds(model));
    MESHWORK_RETURN_IF_ERROR(ReadBytes(model));
    MESHWORK_RETURN_IF_ERROR(ReadMerges(model));
    MESHWORK_ASSIGN_OR_RETURN(const JsonValue pre_tokenizer, root_.Get("pre_tokenizer"));
    MESHWORK_RETURN_IF_ERROR(ReadSteps(pre_tokenizer));
    if (!is_byte_level_)
      return pre_tokenizer.Unsupported("\"ByteLevel\", or \"Sequence\" with \"ByteLevel\" at its end");
    MESHWORK_RETURN_IF_ERROR(ReadBos());
    return std::move(file_);
  }

 private:
  absl::Status CheckUnused() const {
    if (root_.Has("normalizer")) {
      MESHWORK_ASSIGN_OR_RETURN(const JsonValue normalizer, root_.Get("normalizer"));
      return normalizer.Unsupported("null");
    }
    if (!root_.Has("decoder")) return absl::OkStatus();
    MESHWORK_ASSIGN_OR_RETURN(const JsonValue decoder, root_.Get("decoder"));
    MESHWORK_ASSIGN_OR_RETURN(const JsonValue type, decoder.Get("type"));
    MESHWORK_ASSIGN_OR_RETURN(const std::string name, type.String());
    return name == "ByteLevel" ? absl::OkStatus() : type.Unsupported("\"ByteLevel\"");
  }

  static absl::Status CheckModel(const JsonValue& model) {
    // The oldest files do not say it.
    if (model.Has("type")) {
      MESHWORK_ASSIGN_OR_RETURN(const JsonValue type, model.Get("type"));
      MESHWORK_ASSIGN_OR_RETURN(const std::string name, type.String());
      if (name != "BPE") return type.Unsupported("\"BPE\"");
    }
    for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"}) {
      if (model.IsOff(key)) continue;
      MESHWORK_ASSIGN_OR_RETURN(const JsonValue value, model.Get(key));
      return value.Unsupported("null");
    }
    return absl::OkStatus();
  }

  // Fills ids_ and file_.added: which id each token has.
  absl::Status ReadIds(const JsonValue& model) {
    MESHWORK_ASSIGN_OR_RETURN(const JsonValue vocab, model.Get("vocab"));
    MESHWORK_ASSIGN_OR_RETURN(const std::vector<std::string> texts, vocab.Keys());
    MESHWORK_ASSIGN_OR_RETURN(const std::vector<JsonValue> added, AddedValues());
    size_t size = texts.size();
    for (const JsonValue& token : added) {
      MESHWORK_ASSIGN_OR_RETURN(const std::string content, token.StringOf("content"));
      if (!vocab.Has(content)) ++size;
    }
    if (size == 0) return vocab.Expected("an object of tokens and their ids");
    if (size > INT32_MAX) return InvalidArgument("{}: it has {} tokens, more than 2^31-1.", path_, size);
    owners_.resize(size, nullptr);
    ids_.reserve(size);
    for (const std::string& text : texts) {
      MESHWORK_ASSIGN_OR_RETURN(const JsonValue id, vocab.Get(text));
      MESHWORK_RETURN_IF_ERROR(AddId(text, id));
    }
    for (const JsonValue& token : added) MESHWORK_RETURN_IF_ERROR(ReadAdded(token));
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<JsonValue>> AddedValues() const {
    if (!root_.Has("added_tokens")) return std::vector<JsonValue>();
    MESHWORK_ASSIGN_OR_RETURN(const JsonValue list, root_.Get("added_tokens"));
    return list.Items();
  }

  absl::StatusOr<int32_t> ReadId(const JsonValue& id) const {
    MESHWORK_ASSIGN_OR_RETURN(const int64_t number, id.Integer());
    if (number < 0 || number >= std::ssize(owners_)) {
      return id.Expected(fmt::format("an id from 0 to {}; there are {}, and their ids have no gaps",
                                     std::ssize(owners_) - 1, Count(std::ssize(owners_), "token")));
    }
    return static_cast<int32_t>(number);
  }

  absl::Status AddId(const std::string& text, const JsonValue& id) {
    MESHWORK_ASSIGN_OR_RETURN(const int32_t number, ReadId(id));
    const std::string*& owner = owners_[static_cast<size_t>(number)];
    if (owner != nullptr) {
      return InvalidArgument(
          "{}: the tokens {} and {} both have the id {}; every token has an id of its own.", path_,
          Quoted(*owner), Quoted(text), number);
    }
    owner = &ids_.emplace(text, number).first->first;
    return absl::OkStatus();
  }

  absl::Status ReadAdded(const JsonValue& added) {
    AddedToken token;
    MESHWORK_ASSIGN_OR_RETURN(const JsonValue content, added.Get("content"));
    MESHWORK_ASSIGN_OR_RETURN(token.content, content.String());
    if (token.content.empty()) return content.Expected("a text that is not empty");
    if (!added_.insert(token.content).second) return content.Expected("given once");
    for (const char* key : {"single_word", "lstrip", "rstrip"}) {
      if (added.IsOff(key)) continue;
      MESHWORK_ASSIGN_OR_RETURN(const JsonValue flag, added.Get(key));
      return flag.Unsupported("false");
    }
    MESHWORK_ASSIGN_OR_RETURN(token.is_special, added.BoolOf("special", false));
    MESHWORK_ASSIGN_OR_RETURN(token.is_normalized, added.BoolOf("normalized", !token.is_special));
    MESHWORK_ASSIGN_OR_RETURN(const JsonValue id, added.Get("id"));
    MESHWORK_ASSIGN_OR_RETURN(token.id, ReadId(id));
    const auto known = ids_.find(token.content);
    if (known == ids_.end()) MESHWORK_RETURN_IF_ERROR(AddId(token.content, id));
    else if (known->second != token.id)
      return id.Expected(fmt::format("{}, the id of the token in model.vocab", known->second));
    file_.added.push_back(std::move(token));
    return absl::OkStatus();
  }

  // Fills what depends on the bytes of tokens.
  absl::Status ReadBytes(const JsonValue& model) {
    MESHWORK_ASSIGN_OR_RETURN(const bool ignore_merges, model.BoolOf("ignore_merges", false));
    MESHWORK_ASSIGN_OR_RETURN(const JsonValue vocab, model.Get("vocab"));
    file_.vocabulary.byte_ids.fill(kNoToken);
    for (const std::string* text : owners_) {
      const int32_t id = static_cast<int32_t>(file_.bytes.size());
      std::optional<std::string> bytes = BytesOf(*text);
      if (bytes.has_value() && vocab.Has(*text)) {
        if (bytes->size() == 1) file_.vocabulary.byte_ids[static_cast<unsigned char>((*bytes)[0])] = id;
        if (ignore_merges) file_.vocabulary.whole.emplace(*bytes, id);
      }
      // Added tokens are found in the text itself.
      file_.bytes.push_back(added_.contains(*text) || !bytes.has_value() ? *text : *std::move(bytes));
    }
    MESHWORK_ASSIGN_OR_RETURN(file_.vocabulary.fuse_unknown, model.BoolOf("fuse_unk", false));
    if (model.IsOff("unk_token")) return absl::OkStatus();
    MESHWORK_ASSIGN_OR_RETURN(const JsonValue unknown, model.Get("unk_token"));
    MESHWORK_ASSIGN_OR_RETURN(const std::string text, unknown.String());
    const auto known = ids_.find(text);
    if (known == ids_.end()) return unknown.Expected("a token");
    file_.vocabulary.unknown = known->second;
    return absl::OkStatus();
  }

  absl::Status ReadMerges(const JsonValue& model) {
    MESHWORK_ASSIGN_OR_RETURN(const JsonValue list, model.Get("merges"));
    MESHWORK_ASSIGN_OR_RETURN(const std::vector<JsonValue> items, list.Items());
    std::unordered_set<uint64_t> seen;  // both tokens of each merge
    seen.reserve(items.size());
    for (const JsonValue& item : items) {
      MESHWORK_ASSIGN_OR_RETURN(const auto parts, PartsOf(item));
      const auto& [left, right] = parts;
      BytePairVocabulary::Merge merge{};
      MESHWORK_ASSIGN_OR_RETURN(merge.left, TokenOfMerge(item, left));
      MESHWORK_ASSIGN_OR_RETURN(merge.right, TokenOfMerge(item, right));
      MESHWORK_ASSIGN_OR_RETURN(merge.result, TokenOfMerge(item, left + right));
      const uint64_t pair = static_cast<uint64_t>(merge.left) << 32 | static_cast<uint64_t>(merge.right);
      if (!seen.insert(pair).second) return item.Expected("given once");
      file_.vocabulary.merges.push_back(merge);
    }
    return absl::OkStatus();
  }

  static absl::StatusOr<std::pair<std::string, std::string>> PartsOf(const JsonValue& merge) {
    constexpr std::string_view kForm = "two tokens, as \"a b\" or [\"a\",\"b\"]";
    if (merge.IsString()) {
      MESHWORK_ASSIGN_OR_RETURN(const std::string text, merge.String());
      const size_t space = text.find(' ');
      if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos)
        return merge.Expected(kForm);
      return std::pair(text.substr(0, space), text.substr(space + 1));
    }
    if (!merge.IsList()) return merge.Expected(kForm);
    MESHWORK_ASSIGN_OR_RETURN(const std::vector<JsonValue> parts, merge.Items());
    if (parts.size() != 2) return merge.Expected(kForm);
    MESHWORK_ASSIGN_OR_RETURN(std::string left, parts[0].String());
    MESHWORK_ASSIGN_OR_RETURN(std::string right, parts[1].String());
    return std::pair(std::move(left), std::move(right));
  }

  absl::StatusOr<int32_t> TokenOfMerge(const JsonValue& merge, const std::string& text) const {
    const auto known = ids_.find(text);
    if (known != ids_.end()) return known->second;
    return merge.Expected(
        fmt::format("of two tokens whose text together is a token; {} is none", Quoted(text)));
  }

  absl::Status ReadSteps(const JsonValue& value, bool is_in_sequence = false) {
    MESHWORK_ASSIGN_OR_RETURN(const JsonValue type, value.Get("type"));
    MESHWORK_ASSIGN_OR_RETURN(const std::string name, type.String());
    // It turns bytes into characters; what came after it would see these.
    if (is_byte_level_) return type.Unsupported("in front of ByteLevel");
    if (name == "Sequence" && !is_in_sequence) {
      MESHWORK_ASSIGN_OR_RETURN(const JsonValue list, value.Get("pretokenizers"));
      MESHWORK_ASSIGN_OR_RETURN(const std::vector<JsonValue> items, list.Items());
      for (const JsonValue& item : items) MESHWORK_RETURN_IF_ERROR(ReadSteps(item, /*is_in_sequence=*/true));
      return absl::OkStatus();
    }
    if (name == "ByteLevel") return ReadByteLevel(value);
    if (name == "Digits") {
      MESHWORK_ASSIGN_OR_RETURN(const bool individual, value.BoolOf("individual_digits"));
      return AddStep(individual ? "\\p{N}" : "\\p{N}+");
    }
    if (name == "Split") return ReadSplit(value);
    return type.Unsupported(is_in_sequence ? "\"ByteLevel\", \"Digits\" or \"Split\""
                                           : "\"ByteLevel\", or \"Sequence\" with \"ByteLevel\" at its end");
  }

  absl::Status ReadByteLevel(const JsonValue& value) {
    is_byte_level_ = true;
    SplitStep step;
    MESHWORK_ASSIGN_OR_RETURN(step.add_prefix_space, value.BoolOf("add_prefix_space"));
    MESHWORK_ASSIGN_OR_RETURN(const bool use_regex, value.BoolOf("use_regex", true));
    if (use_regex) {
      MESHWORK_ASSIGN_OR_RETURN(step.cut, Regex::Compile(kGpt2Pattern));
    }
    file_.steps.push_back(std::move(step));
    return absl::OkStatus();
  }

  absl::Status ReadSplit(const JsonValue& value) {
    MESHWORK_ASSIGN_OR_RETURN(const JsonValue behavior, value.Get("behavior"));
    MESHWORK_ASSIGN_OR_RETURN(const std::string name, behavior.String());
    if (name != "Isolated") return behavior.Unsupported("\"Isolated\"");
    MESHWORK_ASSIGN_OR_RETURN(const bool invert, value.BoolOf("invert", false));
    if (invert) return value.Get("invert")->Unsupported("false");
    MESHWORK_ASSIGN_OR_RETURN(const JsonValue pattern, value.Get("pattern"));
    if (!pattern.Has("Regex")) return pattern.Unsupported("{\"Regex\": …}");
    MESHWORK_ASSIGN_OR_RETURN(const std::string regex, pattern.StringOf("Regex"));
    return AddStep(regex);
  }

  absl::Status AddStep(std::string_view pattern) {
    absl::StatusOr<Regex> regex = Regex::Compile(pattern);
    if (!regex.ok()) return Annotate(regex.status(), fmt::format("{}: ", path_));
    file_.steps.push_back({.cut = *std::move(regex)});
    return absl::OkStatus();
  }

  absl::Status ReadBos() {
    if (!root_.Has("post_processor")) return absl::OkStatus();
    MESHWORK_ASSIGN_OR_RETURN(const JsonValue root, root_.Get("post_processor"));
    std::vector<JsonValue> processors = {root};
    if (root.Has("processors")) {
      MESHWORK_ASSIGN_OR_RETURN(const JsonValue list, root.Get("processors"));
      MESHWORK_ASSIGN_OR_RETURN(processors, list.Items());
    }
    for (const JsonValue& processor : processors) {
      MESHWORK_ASSIGN_OR_RETURN(const std::string type, processor.StringOf("type"));
      if (type == "TemplateProcessing") return ReadTemplate(processor);
    }
    return absl::OkStatus();
  }

  // {"single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": …}], "special_tokens": {"<s>": {"ids": [1]}}}
  absl::Status ReadTemplate(const JsonValue& value) {
    MESHWORK_ASSIGN_OR_RETURN(const JsonValue single, value.Get("single"));
    MESHWORK_ASSIGN_OR_RETURN(const std::vector<JsonValue> pieces, single.Items());
    if (pieces.empty() || !pieces[0].Has("SpecialToken")) return absl::OkStatus();
    MESHWORK_ASSIGN_OR_RETURN(const JsonValue first, pieces[0].Get("SpecialToken"));
    MESHWORK_ASSIGN_OR_RETURN(const std::string name, first.StringOf("id"));
    MESHWORK_ASSIGN_OR_RETURN(const JsonValue tokens, value.Get("special_tokens"));
    MESHWORK_ASSIGN_OR_RETURN(const JsonValue token, tokens.Get(name));
    MESHWORK_ASSIGN_OR_RETURN(const JsonValue list, token.Get("ids"));
    MESHWORK_ASSIGN_OR_RETURN(const std::vector<JsonValue> ids, list.Items());
    if (ids.size() != 1) return list.Unsupported("one id");
    MESHWORK_ASSIGN_OR_RETURN(file_.bos, ReadId(ids[0]));
    return absl::OkStatus();
  }

  const std::string& path_;
  const JsonValue& root_;
  TokenizerFile file_;
  std::unordered_map<std::string, int32_t> ids_;  // of all tokens, by their text in the file
  std::vector<const std::string*> owners_;        // by id: the text, in ids_
  std::set<std::string> added_;                   // texts of added tokens
  bool is_byte_level_ = false;                    // ByteLevel has been read
};

}  // namespace

absl::StatusOr<TokenizerFile> ReadTokenizerFile(const std::string& path) {
  MESHWORK_ASSIGN_OR_RETURN(const nlohmann::json json, ReadJsonFile(path));
  const JsonValue root(json, path);
  return FileReader(path, root).Read();
}

}  // namespace meshwork
