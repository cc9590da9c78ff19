#include "examples/llama/stream_decoder.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "examples/llama/utf8.h"

namespace meshwork {
namespace {

// Whether more bytes can make `bytes` a character. The least and the greatest continuation are enough to know it: which of
// the others are allowed depends only on a second byte, whose range has one of the two in it.
bool IsBeginOfCharacter(std::string_view bytes) {
  for (const char* rest : {"\x80\x80\x80", "\xbf\xbf\xbf"})
    if (CharacterSize(std::string(bytes) + rest) > bytes.size()) return true;
  return false;
}

// How many bytes at the end of `text` begin a character.
size_t BeginAtEnd(std::string_view text) {
  for (size_t size = std::min<size_t>(text.size(), 3); size > 0; --size)
    if (IsBeginOfCharacter(text.substr(text.size() - size))) return size;
  return 0;
}

}  // namespace

std::string StreamDecoder::Add(int32_t id) {
  std::string text = std::exchange(held_, {}) + tokenizer_.Decode(std::span(&id, 1), options_);
  held_ = text.substr(text.size() - BeginAtEnd(text));
  text.resize(text.size() - held_.size());
  return text;
}

std::string StreamDecoder::Finish() { return std::exchange(held_, {}); }

}  // namespace meshwork
