#include "docs/page.h"

#include <cstdlib>
#include <sstream>

#include "fmt/format.h"

namespace meshwork::docs {

constexpr std::string_view kFence = "```";

std::vector<std::string> Lines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

size_t FenceIndent(std::string_view line) {
  const size_t indent = std::min(line.find_first_not_of(' '), line.size());
  return line.substr(indent).starts_with(kFence) ? indent : std::string::npos;
}

std::string FencedBlock::File() const {
  if (language != "cpp" || words.size() != 1) return "";
  return words[0].ends_with(".cc") || words[0].ends_with(".h") ? words[0] : "";
}

std::vector<FencedBlock> ReadBlocks(const std::filesystem::path& root, const std::string& path) {
  constexpr std::string_view kHidden = "<!--cpp";
  std::vector<FencedBlock> blocks;
  bool open = false;
  int number = 0, count = 0;
  for (const std::string& line : Lines(Contents(root / path))) {
    ++number;
    const size_t indent = FenceIndent(line);
    const bool fence = indent != std::string::npos;
    if (!open && line == kHidden) {
      open = true;
      blocks.push_back({.page = path, .index = -1, .line = number + 1, .language = "cpp", .hidden = true});
    } else if (!open && fence) {
      open = true;
      FencedBlock block{.page = path, .index = count++, .line = number + 1, .indent = indent};
      std::istringstream info(line.substr(indent + kFence.size()));
      info >> block.language;
      for (std::string word; info >> word;) block.words.push_back(word);
      blocks.push_back(std::move(block));
    } else if (open && (blocks.back().hidden ? line == "-->" : fence)) {
      open = false;
    } else if (open) {
      blocks.back().text += line.substr(std::min(blocks.back().indent, line.size())) + "\n";
    }
  }
  if (number == 0 || open) {
    fmt::print(stderr, "{}: {}\n", path, number == 0 ? "there is no such page" : "its last block has no end");
    std::exit(1);
  }
  return blocks;
}

}  // namespace meshwork::docs
