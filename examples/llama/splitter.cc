#include "examples/llama/splitter.h"

#include "examples/llama/utf8.h"

namespace meshwork {
namespace {

// The longest text that `text` begins with and that is UTF-8, or is not at any place, as `is_utf8` says.
std::string_view RunOf(std::string_view text, bool is_utf8) {
  size_t size = 0;
  while (size < text.size()) {
    const size_t character = CharacterSize(text.substr(size));
    if ((character > 0) != is_utf8) break;
    size += is_utf8 ? character : 1;
  }
  return text.substr(0, size);
}

}  // namespace

std::vector<std::string> Splitter::Split(std::string_view text) const {
  std::vector<std::string> pieces;
  while (!text.empty()) {
    const std::string_view run = RunOf(text, /*is_utf8=*/true);
    SplitUtf8(run, pieces);
    text.remove_prefix(run.size());
    const std::string_view broken = RunOf(text, /*is_utf8=*/false);
    if (!broken.empty()) pieces.emplace_back(broken);
    text.remove_prefix(broken.size());
  }
  return pieces;
}

void Splitter::SplitUtf8(std::string_view text, std::vector<std::string>& pieces) const {
  if (text.empty()) return;
  std::vector<std::string> before = {std::string(text)};
  for (const SplitStep& step : steps_) {
    std::vector<std::string> after;
    for (std::string& piece : before) {
      if (step.add_prefix_space && !piece.starts_with(' ')) piece.insert(0, 1, ' ');
      if (step.cut.has_value()) step.cut->Cut(piece, after);
      else after.push_back(std::move(piece));
    }
    before = std::move(after);
  }
  for (std::string& piece : before) pieces.push_back(std::move(piece));
}

}  // namespace meshwork
