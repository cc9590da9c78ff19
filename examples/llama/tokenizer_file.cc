#include "examples/llama/tokenizer_file.h"

#include <set>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "examples/llama/byte_text.h"
#include "meshwork/base/io/file.h"
#include "meshwork/base/json.h"
#include "meshwork/base/quote.h"
#include "meshwork/base/status.h"
#include "nlohmann/json.hpp"

namespace meshwork {
namespace {

using Json = nlohmann::json;

// A value of the file. A value null is as if it were absent, as the format has it.
class Section {
 public:
  Section(const Json& json, JsonReader reader) : json_(&json), reader_(std::move(reader)) {}

  bool Has(const std::string& key) const { return reader_.Has(key) && !(*json_)[key].is_null(); }
  // Whether the value of `key` says that a feature is not used.
  bool IsOff(const std::string& key) const {
    return !Has(key) || (*json_)[key] == false || (*json_)[key] == 0 || (*json_)[key] == "";
  }
  bool IsString() const { return json_->is_string(); }
  bool IsList() const { return json_->is_array(); }

  absl::StatusOr<Section> Get(const std::string& key) const {
    MESHWORK_ASSIGN_OR_RETURN(JsonReader reader, reader_.Get(key));
    return Section((*json_)[key], std::move(reader));
  }
  absl::StatusOr<std::vector<Section>> Items() const {
    MESHWORK_ASSIGN_OR_RETURN(std::vector<JsonReader> readers, reader_.Items());
    std::vector<Section> items;
    for (size_t i = 0; i < readers.size(); ++i) items.emplace_back((*json_)[i], std::move(readers[i]));
    return items;
  }
  absl::StatusOr<std::string> String() const { return reader_.String(); }
  absl::StatusOr<std::string> StringOf(const std::string& key) const { return reader_.StringOf(key); }
  // Nothing as `absent`: the key must be there.
  absl::StatusOr<bool> BoolOf(const std::string& key, std::optional<bool> absent = {}) const {
    if (!Has(key) && absent.has_value()) return *absent;
    MESHWORK_ASSIGN_OR_RETURN(const Section value, Get(key));
    if (!value.json_->is_boolean()) return value.Expected("true or false");
    return value.json_->get<bool>();
  }
  absl::StatusOr<std::vector<std::string>> Keys() const { return reader_.Keys(); }
  absl::StatusOr<int64_t> Integer() const { return reader_.Integer(); }

  absl::Status Expected(std::string_view what) const { return reader_.Expected(what); }
  absl::Status Unsupported(std::string_view supported) const {
    return absl::UnimplementedError(
        fmt::format("{} Nothing else is supported.", MessageOf(Expected(supported))));
  }

 private:
  const Json* json_;
  JsonReader reader_;
};

// All that is checked while the parts of the file are read.
class FileReader {
 public:
  FileReader(const std::string& path, const Section& root) : path_(path), root_(root) {}

  absl::StatusOr<TokenizerFile> Read() {
    MESHWORK_RETURN_IF_ERROR(CheckUnused());
    MESHWORK_ASSIGN_OR_RETURN(const Section model, root_.Get("model"));
    MESHWORK_RETURN_IF_ERROR(CheckModel(model));
    MESHWORK_RETURN_IF_ERROR(ReadIds(model));
    MESHWORK_RETURN_IF_ERROR(ReadBytes(model));
    MESHWORK_RETURN_IF_ERROR(ReadMerges(model));
    MESHWORK_ASSIGN_OR_RETURN(const Section pre_tokenizer, root_.Get("pre_tokenizer"));
    MESHWORK_RETURN_IF_ERROR(ReadSteps(pre_tokenizer));
    if (!is_byte_level_) return pre_tokenizer.Unsupported("ByteLevel, or a Sequence that ends with it");
    MESHWORK_RETURN_IF_ERROR(ReadBos());
    return std::move(file_);
  }

 private:
  absl::Status CheckUnused() const {
    if (root_.Has("normalizer")) {
      MESHWORK_ASSIGN_OR_RETURN(const Section normalizer, root_.Get("normalizer"));
      return normalizer.Unsupported("null");
    }
    if (!root_.Has("decoder")) return absl::OkStatus();
    MESHWORK_ASSIGN_OR_RETURN(const Section decoder, root_.Get("decoder"));
    MESHWORK_ASSIGN_OR_RETURN(const Section type, decoder.Get("type"));
    MESHWORK_ASSIGN_OR_RETURN(const std::string name, type.String());
    return name == "ByteLevel" ? absl::OkStatus() : type.Unsupported("\"ByteLevel\"");
  }

  static absl::Status CheckModel(const Section& model) {
    // The oldest files do not say it.
    if (model.Has("type")) {
      MESHWORK_ASSIGN_OR_RETURN(const Section type, model.Get("type"));
      MESHWORK_ASSIGN_OR_RETURN(const std::string name, type.String());
      if (name != "BPE") return type.Unsupported("\"BPE\"");
    }
    for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"}) {
      if (model.IsOff(key)) continue;
      MESHWORK_ASSIGN_OR_RETURN(const Section value, model.Get(key));
      return value.Unsupported("null");
    }
    return absl::OkStatus();
  }

  // Fills ids_ and file_.added: which id each token has.
  absl::Status ReadIds(const Section& model) {
    MESHWORK_ASSIGN_OR_RETURN(const Section vocab, model.Get("vocab"));
    MESHWORK_ASSIGN_OR_RETURN(const std::vector<std::string> texts, vocab.Keys());
    MESHWORK_ASSIGN_OR_RETURN(const std::vector<Section> added, AddedSections());
    size_t size = texts.size();
    for (const Section& token : added) {
      MESHWORK_ASSIGN_OR_RETURN(const std::string content, token.StringOf("content"));
      if (!vocab.Has(content)) ++size;
    }
    if (size == 0) return vocab.Expected("an object of tokens and their ids");
    if (size > INT32_MAX) return InvalidArgument("{}: it has {} tokens, more than 2^31-1.", path_, size);
    owners_.resize(size, nullptr);
    ids_.reserve(size);
    for (const std::string& text : texts) {
      MESHWORK_ASSIGN_OR_RETURN(const Section id, vocab.Get(text));
      MESHWORK_RETURN_IF_ERROR(AddId(text, id));
    }
    for (const Section& token : added) MESHWORK_RETURN_IF_ERROR(ReadAdded(token));
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<Section>> AddedSections() const {
    if (!root_.Has("added_tokens")) return std::vector<Section>();
    MESHWORK_ASSIGN_OR_RETURN(const Section list, root_.Get("added_tokens"));
    return list.Items();
  }

  absl::StatusOr<int32_t> ReadId(const Section& id) const {
    MESHWORK_ASSIGN_OR_RETURN(const int64_t number, id.Integer());
    if (number < 0 || number >= std::ssize(owners_)) {
      return id.Expected(fmt::format("an id from 0 to {}; there are {}, and their ids have no gaps",
                                     std::ssize(owners_) - 1, Count(std::ssize(owners_), "token")));
    }
    return static_cast<int32_t>(number);
  }

  absl::Status AddId(const std::string& text, const Section& id) {
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

  absl::Status ReadAdded(const Section& section) {
    AddedToken token;
    MESHWORK_ASSIGN_OR_RETURN(const Section content, section.Get("content"));
    MESHWORK_ASSIGN_OR_RETURN(token.content, content.String());
    if (token.content.empty()) return content.Expected("a text that is not empty");
    if (!added_.insert(token.content).second) return content.Expected("given once");
    for (const char* key : {"single_word", "lstrip", "rstrip"}) {
      if (section.IsOff(key)) continue;
      MESHWORK_ASSIGN_OR_RETURN(const Section value, section.Get(key));
      return value.Unsupported("false");
    }
    MESHWORK_ASSIGN_OR_RETURN(token.is_special, section.BoolOf("special", false));
    MESHWORK_ASSIGN_OR_RETURN(token.is_normalized, section.BoolOf("normalized", !token.is_special));
    MESHWORK_ASSIGN_OR_RETURN(const Section id, section.Get("id"));
    MESHWORK_ASSIGN_OR_RETURN(token.id, ReadId(id));
    const auto known = ids_.find(token.content);
    if (known == ids_.end()) MESHWORK_RETURN_IF_ERROR(AddId(token.content, id));
    else if (known->second != token.id)
      return id.Expected(fmt::format("{}, the id of the token in model.vocab", known->second));
    file_.added.push_back(std::move(token));
    return absl::OkStatus();
  }

  // Fills what depends on the bytes of tokens.
  absl::Status ReadBytes(const Section& model) {
    MESHWORK_ASSIGN_OR_RETURN(const bool ignore_merges, model.BoolOf("ignore_merges", false));
    MESHWORK_ASSIGN_OR_RETURN(const Section vocab, model.Get("vocab"));
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
    MESHWORK_ASSIGN_OR_RETURN(const Section unknown, model.Get("unk_token"));
    MESHWORK_ASSIGN_OR_RETURN(const std::string text, unknown.String());
    const auto known = ids_.find(text);
    if (known == ids_.end()) return unknown.Expected("a token");
    file_.vocabulary.unknown = known->second;
    return absl::OkStatus();
  }

  absl::Status ReadMerges(const Section& model) {
    MESHWORK_ASSIGN_OR_RETURN(const Section list, model.Get("merges"));
    MESHWORK_ASSIGN_OR_RETURN(const std::vector<Section> items, list.Items());
    std::unordered_set<uint64_t> seen;  // both tokens of each merge
    seen.reserve(items.size());
    for (const Section& item : items) {
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

  static absl::StatusOr<std::pair<std::string, std::string>> PartsOf(const Section& merge) {
    constexpr std::string_view kForm = "two tokens, as \"a b\" or [\"a\",\"b\"]";
    if (merge.IsString()) {
      MESHWORK_ASSIGN_OR_RETURN(const std::string text, merge.String());
      const size_t space = text.find(' ');
      if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos)
        return merge.Expected(kForm);
      return std::pair(text.substr(0, space), text.substr(space + 1));
    }
    if (!merge.IsList()) return merge.Expected(kForm);
    MESHWORK_ASSIGN_OR_RETURN(const std::vector<Section> parts, merge.Items());
    if (parts.size() != 2) return merge.Expected(kForm);
    MESHWORK_ASSIGN_OR_RETURN(std::string left, parts[0].String());
    MESHWORK_ASSIGN_OR_RETURN(std::string right, parts[1].String());
    return std::pair(std::move(left), std::move(right));
  }

  absl::StatusOr<int32_t> TokenOfMerge(const Section& merge, const std::string& text) const {
    const auto known = ids_.find(text);
    if (known != ids_.end()) return known->second;
    return merge.Expected(
        fmt::format("of two tokens whose text together is a token; {} is none", Quoted(text)));
  }

  absl::Status ReadSteps(const Section& section) {
    MESHWORK_ASSIGN_OR_RETURN(const Section type, section.Get("type"));
    MESHWORK_ASSIGN_OR_RETURN(const std::string name, type.String());
    // It turns bytes into characters; what came after it would see these.
    if (is_byte_level_) return type.Unsupported("in front of ByteLevel");
    if (name == "Sequence") {
      MESHWORK_ASSIGN_OR_RETURN(const Section list, section.Get("pretokenizers"));
      MESHWORK_ASSIGN_OR_RETURN(const std::vector<Section> items, list.Items());
      for (const Section& item : items) MESHWORK_RETURN_IF_ERROR(ReadSteps(item));
      return absl::OkStatus();
    }
    if (name == "ByteLevel") return ReadByteLevel(section);
    if (name == "Digits") {
      MESHWORK_ASSIGN_OR_RETURN(const bool individual, section.BoolOf("individual_digits"));
      return AddStep(individual ? "\\p{N}" : "\\p{N}+");
    }
    if (name == "Split") return ReadSplit(section);
    return type.Unsupported("\"ByteLevel\", \"Digits\", \"Split\" or \"Sequence\"");
  }

  absl::Status ReadByteLevel(const Section& section) {
    is_byte_level_ = true;
    SplitStep step;
    MESHWORK_ASSIGN_OR_RETURN(step.add_prefix_space, section.BoolOf("add_prefix_space"));
    MESHWORK_ASSIGN_OR_RETURN(const bool use_regex, section.BoolOf("use_regex", true));
    if (use_regex) {
      MESHWORK_ASSIGN_OR_RETURN(step.cut, Regex::Compile(kGpt2Pattern));
    }
    file_.steps.push_back(std::move(step));
    return absl::OkStatus();
  }

  absl::Status ReadSplit(const Section& section) {
    MESHWORK_ASSIGN_OR_RETURN(const Section behavior, section.Get("behavior"));
    MESHWORK_ASSIGN_OR_RETURN(const std::string name, behavior.String());
    if (name != "Isolated") return behavior.Unsupported("\"Isolated\"");
    MESHWORK_ASSIGN_OR_RETURN(const bool invert, section.BoolOf("invert", false));
    if (invert) return section.Get("invert")->Unsupported("false");
    MESHWORK_ASSIGN_OR_RETURN(const Section pattern, section.Get("pattern"));
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
    MESHWORK_ASSIGN_OR_RETURN(const Section root, root_.Get("post_processor"));
    std::vector<Section> processors = {root};
    if (root.Has("processors")) {
      MESHWORK_ASSIGN_OR_RETURN(const Section list, root.Get("processors"));
      MESHWORK_ASSIGN_OR_RETURN(processors, list.Items());
    }
    for (const Section& processor : processors) {
      MESHWORK_ASSIGN_OR_RETURN(const std::string type, processor.StringOf("type"));
      if (type == "TemplateProcessing") return ReadTemplate(processor);
    }
    return absl::OkStatus();
  }

  // {"single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": …}], "special_tokens": {"<s>": {"ids": [1]}}}
  absl::Status ReadTemplate(const Section& section) {
    MESHWORK_ASSIGN_OR_RETURN(const Section single, section.Get("single"));
    MESHWORK_ASSIGN_OR_RETURN(const std::vector<Section> pieces, single.Items());
    if (pieces.empty() || !pieces[0].Has("SpecialToken")) return absl::OkStatus();
    MESHWORK_ASSIGN_OR_RETURN(const Section first, pieces[0].Get("SpecialToken"));
    MESHWORK_ASSIGN_OR_RETURN(const std::string name, first.StringOf("id"));
    MESHWORK_ASSIGN_OR_RETURN(const Section tokens, section.Get("special_tokens"));
    MESHWORK_ASSIGN_OR_RETURN(const Section token, tokens.Get(name));
    MESHWORK_ASSIGN_OR_RETURN(const Section list, token.Get("ids"));
    MESHWORK_ASSIGN_OR_RETURN(const std::vector<Section> ids, list.Items());
    if (ids.size() != 1) return list.Unsupported("one id");
    MESHWORK_ASSIGN_OR_RETURN(file_.bos, ReadId(ids[0]));
    return absl::OkStatus();
  }

  const std::string& path_;
  const Section& root_;
  TokenizerFile file_;
  std::unordered_map<std::string, int32_t> ids_;  // of all tokens, by their text in the file
  std::vector<const std::string*> owners_;        // by id: the text, in ids_
  std::set<std::string> added_;                   // texts of added tokens
  bool is_byte_level_ = false;                    // ByteLevel has been read
};

}  // namespace

absl::StatusOr<TokenizerFile> ReadTokenizerFile(const std::string& path) {
  MESHWORK_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  MESHWORK_ASSIGN_OR_RETURN(const Json json, ParseJson(text, path));
  const Section root(json, JsonReader(json, path));
  return FileReader(path, root).Read();
}

}  // namespace meshwork
