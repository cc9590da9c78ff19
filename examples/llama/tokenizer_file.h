// What a tokenizer.json of Hugging Face says, checked.
//
// Read are: model, of type BPE; added_tokens; pre_tokenizer, which is ByteLevel, or a Sequence of Split and Digits with
// ByteLevel at its end; and the token that a TemplateProcessing of post_processor puts first. The decoder must be that of
// ByteLevel. Other keys, as of padding, are not looked at.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "examples/llama/added_tokens.h"
#include "examples/llama/byte_pairs.h"
#include "examples/llama/splitter.h"

namespace meshwork {

struct TokenizerFile {
  std::vector<std::string> bytes;  // that each token stands for, by its id
  BytePairVocabulary vocabulary;
  std::vector<AddedToken> added;
  std::vector<SplitStep> steps;
  std::optional<int32_t> bos;  // the first token of every text, which Encode adds only if it is asked to
};

// Errors name the path and the place in the file: it cannot be read; it is not JSON; the ids of the n tokens are not 0 to
// n - 1; a merge is not one of tokens to a token, or is there twice; UNIMPLEMENTED, the file asks for something that is not
// supported, such as a normalizer.
absl::StatusOr<TokenizerFile> ReadTokenizerFile(const std::string& path);

}  // namespace meshwork
