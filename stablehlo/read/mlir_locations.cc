#include <charconv>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "meshwork/stablehlo/read/mlir.h"

namespace meshwork::mlir {
namespace {

constexpr int kMostAliases = 16;  // that name each other

// What `location` stands for, behind aliases.
std::string_view Resolved(const Module& module, std::string_view location) {
  for (int i = 0; i < kMostAliases && location.starts_with('#'); ++i) {
    const auto found = module.locations.find(std::string(location.substr(1)));
    if (found == module.locations.end()) return {};
    location = found->second;
  }
  return location;
}

// The content of the string that a text begins with, and what follows it; nothing if it begins otherwise.
std::optional<std::pair<std::string_view, std::string_view>> SplitString(std::string_view text) {
  if (!text.starts_with('"')) return std::nullopt;
  const size_t end = text.find('"', 1);
  if (end == std::string_view::npos) return std::nullopt;
  return std::pair(text.substr(1, end - 1), text.substr(end + 1));
}

// "12" of ":12:3"; 0: there is none.
int LineNumber(std::string_view text) {
  int line = 0;
  if (text.starts_with(':')) std::from_chars(text.data() + 1, text.data() + text.size(), line);
  return line;
}

// `left`: how many locations may be looked at.
FileLine FindLine(const Module& module, std::string_view location, int& left) {
  if (--left < 0) return {};
  const std::string_view text = Resolved(module, location);
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '#') {
      size_t end = at + 1;
      while (end < text.size() && absl::ascii_isalnum(static_cast<unsigned char>(text[end]))) ++end;
      FileLine found = FindLine(module, text.substr(at, end - at), left);
      if (found.line > 0) return found;
      at = end - 1;
    } else if (const auto split = SplitString(text.substr(at)); split.has_value()) {
      if (const int line = LineNumber(split->second); line > 0)
        return {std::string(split->first.substr(split->first.rfind('/') + 1)), line};
      at += split->first.size() + 1;
    }
  }
  return {};
}

}  // namespace

FileLine LineOf(const Module& module, std::string_view location) {
  int left = kMostAliases;
  return FindLine(module, location, left);
}

std::string NameOf(const Module& module, std::string_view location) {
  const auto split = SplitString(Resolved(module, location));
  return split.has_value() && LineNumber(split->second) == 0 ? std::string(split->first) : "";
}

}  // namespace meshwork::mlir
