#include "house/definitions.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <regex>
#include <set>
#include <utility>

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

// Calls `visit(open, head, end)` for the text before each brace or semicolon that is in namespaces only.
// `open`: the names of the namespaces, "" for an unnamed one.
template <typename Visit>
void VisitNamespaces(std::string_view text, const Visit& visit) {
  // What stands before a brace: "namespace a::b".
  static const auto* const space = new std::regex(R"(^\s*(?:inline\s+)?namespace\s*([A-Za-z0-9_:]*)\s*$)");
  std::vector<std::string> open;
  size_t within = 0;  // number of open braces other than those of namespaces
  std::string head;
  for (const char c : Code(text)) {
    if (c != '{' && c != '}' && c != ';') {
      head += c;
      continue;
    }
    if (within == 0 && c != '}') visit(open, head, c);
    std::smatch match;
    if (c == '{' && within == 0 && std::regex_search(head, match, *space)) {
      open.push_back(match[1].str());
    } else if (c == '{') {
      ++within;
    } else if (c == '}' && within > 0) {
      --within;
    } else if (c == '}' && !open.empty()) {
      open.pop_back();
    }
    head.clear();
  }
}

// The type that begins with a brace after `head`; "" if none does: "template <class T> struct alignas(64) Name final :
// Base".
std::string TypeIn(const std::string& head) {
  static const auto* const type = new std::regex(
      R"((?:^|[\s>])(?:struct|class|union|enum(?:\s+class|\s+struct)?)\s+(?:alignas\([^)]*\)\s*)?([A-Za-z0-9_:]*[A-Za-z0-9_](?:<[^;{]*>)?)\s*(?:final\s*)?(?::(?!:)[^;(]*)?$)");
  std::smatch match;
  return std::regex_search(head, match, *type) ? match[1].str() : "";
}

bool HasNoName(const std::string& space) { return space.empty(); }

// "const Graph& graph" -> "const Graph&".
std::string TypeOfParameter(const std::string& parameter) {
  static const auto* const space = new std::regex(R"(\s+)");
  static const auto* const named = new std::regex(R"(^(.*[\s&*>])([A-Za-z_]\w*)?(?:\s*=.*)?$)");
  std::string one_line = std::regex_replace(parameter, *space, " ");
  one_line.erase(0, one_line.find_first_not_of(' '));
  std::smatch match;
  std::string type = std::regex_match(one_line, match, *named) ? match[1].str() : one_line;
  type.erase(type.find_last_not_of(' ') + 1);
  return type;
}

// The function, alias or value that `head` begins to define: "absl::Status Run(const Graph& graph, size_t n)"
// gives "Run", "(const Graph&, size_t)". The name is "" for a mere declaration.
LocalName FunctionIn(const std::string& head) {
  static const auto* const function =
      new std::regex(R"([\s&*>]([A-Za-z_]\w*)\(([^]*)\)\s*(?:noexcept\s*)?(?:->[^()]*)?$)");
  std::smatch match;
  if (!std::regex_search(head, match, *function)) return {};
  std::vector<std::string> types;
  std::string parameter;
  int depth = 0;
  for (const char c : match[2].str() + ",") {
    if (c == '(' || c == '<' || c == '[') ++depth;
    if (c == ')' || c == '>' || c == ']') --depth;
    if (c == ',' && depth == 0) {
      types.push_back(TypeOfParameter(std::exchange(parameter, "")));
    } else {
      parameter += c;
    }
  }
  return {match[1].str(), fmt::format("({})", fmt::join(types, ", ")), ""};
}

LocalName AliasIn(const std::string& head) {
  static const auto* const alias = new std::regex(R"(^\s*(?:using|namespace)\s+([A-Za-z_]\w*)\s*(=[^]*)$)");
  std::smatch match;
  return std::regex_search(head, match, *alias) ? LocalName{match[1].str(), match[2].str(), ""} : LocalName();
}

// "constexpr size_t kMost = 3" -> "kMost".
LocalName ValueIn(const std::string& head) {
  static const auto* const value =
      new std::regex(R"(^[^=()]*[\s&*>]([A-Za-z_]\w*)\s*(?:\[[^\]]*\]\s*)*=(?:[^=]|$))");
  std::smatch match;
  return std::regex_search(head, match, *value) ? LocalName{match[1].str(), "", ""} : LocalName();
}

bool CanStandInOneFile(const LocalName& a, const LocalName& b) {
  if (a.what.starts_with("(") && b.what.starts_with("(")) return a.what != b.what;
  return a.what.starts_with("=") && a.what == b.what;
}

}  // namespace

std::vector<TypeDefinition> TypesOf(const SourceFile& file) {
  std::vector<TypeDefinition> types;
  VisitNamespaces(file.text, [&](const std::vector<std::string>& open, const std::string& head, char end) {
    if (end != '{' || open.empty() || std::any_of(open.begin(), open.end(), HasNoName)) return;
    const std::string type = TypeIn(head);
    if (!type.empty()) types.push_back({fmt::format("{}::{}", fmt::join(open, "::"), type), file.path});
  });
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

std::vector<LocalName> LocalNamesOf(const SourceFile& file) {
  std::vector<LocalName> names;
  VisitNamespaces(file.text, [&](const std::vector<std::string>& open, const std::string& head, char end) {
    if (std::none_of(open.begin(), open.end(), HasNoName)) return;
    LocalName name = {end == '{' ? TypeIn(head) : "", "", ""};
    if (name.name.empty() && end == ';') name = AliasIn(head);
    if (name.name.empty()) name = ValueIn(head);
    if (name.name.empty() && end == '{') name = FunctionIn(head);
    if (name.name.empty()) return;
    names.push_back({fmt::format("{}::{}", fmt::join(open, "::"), name.name), name.what, file.path});
  });
  return names;
}

std::vector<std::string> LocalNamesThatCollide(const std::vector<SourceFile>& files) {
  std::map<std::pair<std::string, std::string>, std::vector<LocalName>> names;  // by folder and name
  for (const SourceFile& file : files)
    for (LocalName& name : LocalNamesOf(file))
      names[{file.path.substr(0, file.path.rfind('/')), name.name}].push_back(std::move(name));
  std::vector<std::string> findings;
  for (const auto& [key, all] : names) {
    std::set<std::string> paths;
    for (const LocalName& a : all)
      for (const LocalName& b : all)
        if (a.path != b.path && !CanStandInOneFile(a, b)) paths.insert(a.path);
    if (!paths.empty()) findings.push_back(fmt::format("{}: {}", key.second, fmt::join(paths, ", ")));
  }
  return findings;
}

}  // namespace meshwork
