#include "house/definitions.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <regex>

#include "fmt/format.h"
#include "fmt/ranges.h"

namespace meshwork {
namespace {

// How many characters of `rest` are a comment, a directive or a literal; 0 if it begins with none of them.
size_t SkippedAt(std::string_view rest, char before) {
  const auto until = [rest](std::string_view end, size_t from) {
    const size_t found = rest.find(end, from);
    return found == std::string_view::npos ? rest.size() : found + end.size();
  };
  if (rest.starts_with("//") || (rest.starts_with("#") && before == '\n')) return until("\n", 0) - 1;
  if (rest.starts_with("/*")) return until("*/", 2);
  if (rest.starts_with("R\"")) {
    const size_t open = rest.find('(');
    if (open == std::string_view::npos) return rest.size();
    return until(fmt::format("){}\"", rest.substr(2, open - 2)), open);
  }
  const bool is_character =
      rest.starts_with("'") && !std::isalnum(static_cast<unsigned char>(before));  // not 1'000
  if (!rest.starts_with("\"") && !is_character) return 0;
  size_t end = 1;
  while (end < rest.size() && rest[end] != rest[0]) end += rest[end] == '\\' ? 2 : 1;
  return std::min(end + 1, rest.size());
}

std::string Code(std::string_view text) {
  std::string code;
  for (size_t at = 0; at < text.size();) {
    const size_t skipped = SkippedAt(text.substr(at), at == 0 ? '\n' : text[at - 1]);
    if (skipped == 0) code += text[at];
    at += std::max<size_t>(skipped, 1);
  }
  return code;
}

}  // namespace

std::vector<TypeDefinition> TypesOf(const SourceFile& file) {
  // What stands before a brace: "namespace a::b", "template <class T> struct alignas(64) Name final : Base".
  static const auto* const space = new std::regex(R"(^\s*(?:inline\s+)?namespace\s*([A-Za-z0-9_:]*)\s*$)");
  static const auto* const type = new std::regex(
      R"((?:^|[\s>])(?:struct|class|union|enum(?:\s+class|\s+struct)?)\s+(?:alignas\([^)]*\)\s*)?([A-Za-z0-9_:]*[A-Za-z0-9_](?:<[^;{]*>)?)\s*(?:final\s*)?(?::(?!:)[^;(]*)?$)");
  std::vector<TypeDefinition> types;
  std::vector<std::string> open;  // of each open brace the namespace's name; "" in anything else
  std::string head;
  for (const char c : Code(file.text)) {
    const bool in_namespaces = std::find(open.begin(), open.end(), "") == open.end();
    if (c == '{') {
      std::smatch match;
      std::string name;
      if (in_namespaces && std::regex_search(head, match, *space)) {
        name = match[1].str();
      } else if (in_namespaces && !open.empty() && std::regex_search(head, match, *type)) {
        types.push_back({fmt::format("{}::{}", fmt::join(open, "::"), match[1].str()), file.path});
      }
      open.push_back(name);
    } else if (c == '}' && !open.empty()) {
      open.pop_back();
    }
    if (c == '{' || c == '}' || c == ';') {
      head.clear();
    } else {
      head += c;
    }
  }
  return types;
}

std::vector<std::string> DefinedTwice(const std::vector<SourceFile>& files) {
  std::map<std::string, std::vector<std::string>> paths;
  for (const SourceFile& file : files)
    for (const TypeDefinition& type : TypesOf(file)) paths[type.name].push_back(type.path);
  std::vector<std::string> findings;
  for (const auto& [name, where] : paths)
    if (where.size() > 1) findings.push_back(fmt::format("{}: {}", name, fmt::join(where, ", ")));
  return findings;
}

}  // namespace meshwork
