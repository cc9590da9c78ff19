#include "examples/llama/tokenizer.h"

#include <utility>

#include "meshwork/base/status.h"

namespace meshwork {

absl::StatusOr<Tokenizer> Tokenizer::Load(const std::string& path) {
  MESHWORK_ASSIGN_OR_RETURN(TokenizerFile file, ReadTokenizerFile(path));
  return Tokenizer(std::move(file));
}

Tokenizer::Tokenizer(TokenizerFile file)
    : bytes_(std::move(file.bytes)),
      is_special_(bytes_.size(), false),
      added_(std::move(file.added)),
      splitter_(std::move(file.steps)),
      pairs_(std::move(file.vocabulary)),
      bos_(file.bos) {
  for (const AddedToken& token : added_.tokens())
    is_special_[static_cast<size_t>(token.id)] = token.is_special;
}

std::vector<int32_t> Tokenizer::Encode(std::string_view text, EncodeOptions options) const {
  std::vector<int32_t> ids;
  if (options.add_bos && bos_.has_value()) ids.push_back(*bos_);
  for (const AddedTokens::Part& part : added_.Cut(text)) {
    if (part.id.has_value()) {
      ids.push_back(*part.id);
      continue;
    }
    for (const std::string& piece : splitter_.Split(part.text)) pairs_.Encode(piece, ids);
  }
  return ids;
}

std::string Tokenizer::Decode(std::span<const int32_t> ids, DecodeOptions options) const {
  std::string text;
  for (const int32_t id : ids) {
    if (id < 0 || id >= size()) continue;
    const auto i = static_cast<size_t>(id);
    if (!options.skip_special || !is_special_[i]) text += bytes_[i];
  }
  return text;
}

}  // namespace meshwork
