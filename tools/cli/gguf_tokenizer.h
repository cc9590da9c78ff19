// The tokenizer of a GGUF file as a tokenizer.json, which Hugging Face's package tokenizers reads.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "meshwork/storage/gguf_file.h"

namespace meshwork::tools {

struct TokenizerJson {
  std::string text;  // empty: there is none
  std::string why;   // there is none
  int64_t tokens = 0, merges = 0;
};

// Of byte-pair encodings over bytes (tokenizer.ggml.model "gpt2"); there is none of other tokenizers.
// tokenizer.ggml.pre says how texts are cut before. Errors: another way to cut than "smollm", "llama-bpe", "gpt-2" and
// "default"; tokens, types or merges are missing, are not UTF-8 or do not fit together.
absl::StatusOr<TokenizerJson> TokenizerOf(const GgufFile& file);

}  // namespace meshwork::tools
