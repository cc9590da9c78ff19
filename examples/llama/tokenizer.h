// A tokenizer: texts as lists of numbers, as a language model reads and writes them. It is the byte-level BPE that a
// tokenizer.json of Hugging Face describes, as those of GPT-2, Llama 3, Qwen and SmolLM are.
//
//   MESHWORK_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::Load("model/tokenizer.json"));
//   tokenizer.Encode("The capital of France is Paris.");   // for SmolLM2: 504, 3575, 282, 4649, 314, 7042, 30
//   tokenizer.Decode(ids);
//   tokenizer.Find("<|im_end|>");                          // 2
//
// A text is encoded in four steps. Added tokens, which stand in it as they are, are found. The texts between them are cut
// into pieces (examples/llama/splitter.h). The bytes of each piece are merged into tokens (examples/llama/byte_pairs.h).
//
// A Tokenizer does not change: any thread may use it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "examples/llama/added_tokens.h"
#include "examples/llama/byte_pairs.h"
#include "examples/llama/splitter.h"
#include "examples/llama/tokenizer_file.h"

namespace meshwork {

struct EncodeOptions {
  bool add_bos = false;  // bos() goes in front, if the file names one
};

struct DecodeOptions {
  bool skip_special = false;  // special tokens give no text
};

class Tokenizer {
 public:
  // Errors: those of ReadTokenizerFile (examples/llama/tokenizer_file.h).
  static absl::StatusOr<Tokenizer> Load(const std::string& path);

  // The tokens of a text, which may be any bytes. If every byte is a token and add_prefix_space is false in the file, then
  // Decode(Encode(text)) == text. A byte that is no token gives the unk_token of the file; without one, nothing.
  std::vector<int32_t> Encode(std::string_view text, EncodeOptions options = {}) const;
  // The bytes of the tokens. They need not be UTF-8: a token may be a part of a character. A number that is the id of no
  // token gives nothing.
  std::string Decode(std::span<const int32_t> ids, DecodeOptions options = {}) const;

  // The id of an added token, such as "<|im_end|>". Nothing for other texts, tokens of the vocabulary included.
  std::optional<int32_t> Find(std::string_view added_token) const { return added_.Find(added_token); }
  // The token with which texts begin, as a post_processor of type TemplateProcessing says.
  std::optional<int32_t> bos() const { return bos_; }
  // The number of tokens. Their ids are 0 to size() - 1. (A model may have rows for more.)
  int32_t size() const { return static_cast<int32_t>(bytes_.size()); }

 private:
  explicit Tokenizer(TokenizerFile file);

  std::vector<std::string> bytes_;  // of each token
  std::vector<bool> is_special_;
  AddedTokens added_;
  Splitter splitter_;
  BytePairs pairs_;
  std::optional<int32_t> bos_;
};

}  // namespace meshwork
