// The text of tokens as they come, to be printed at once. A character whose bytes are spread over several tokens is held back
// until it is whole.
//
//   StreamDecoder stream(tokenizer, {.skip_special = true});
//   for (;;) fmt::print("{}", stream.Add(NextToken()));   // until the end
//   fmt::print("{}", stream.Finish());
//
// Law: the results of Add and of Finish, put together, are the result of Tokenizer::Decode for all tokens. If that is UTF-8,
// so is every result.
//
// Not thread-safe. The tokenizer must outlive it.
#pragma once

#include <cstdint>
#include <string>

#include "examples/llama/tokenizer.h"

namespace meshwork {

class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer, DecodeOptions options = {})
      : tokenizer_(tokenizer), options_(options) {}

  // The text that this token completes; it may be empty. Bytes that can no longer become a character are part of it.
  std::string Add(int32_t id);
  // The bytes that are still held back: at most three, the beginning of a character. Begins anew.
  std::string Finish();

 private:
  const Tokenizer& tokenizer_;
  const DecodeOptions options_;
  std::string held_;
};

}  // namespace meshwork
