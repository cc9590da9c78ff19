#include "errors/errors.h"

#include <cctype>
#include <cstdlib>
#include <set>

#include "gtest/gtest.h"
#include "support/golden.h"

namespace meshwork {
namespace {

// A mistake may take some lines to write down.
constexpr int kLines = 8;

void Replace(std::string& text, const std::string& from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

// "neg (ops_test.cc:41): …" becomes "neg (@): …" if this is the place of the mistake.
void HidePlace(std::string& text, CallSite site) {
  const std::string path = site.file;
  const std::string file = path.substr(path.rfind('/') + 1) + ":";
  for (size_t at = text.find(file); at != std::string::npos; at = text.find(file, at + 1)) {
    size_t end = at + file.size();
    while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end]))) ++end;
    const int line = std::atoi(text.c_str() + at + file.size());
    if (std::abs(line - site.line) <= kLines) text.replace(at, end - at, "@");
  }
}

}  // namespace

std::string Indented(const std::string& text) {
  std::string out = "    ";
  for (char c : text) {
    out += c;
    if (c == '\n') out += "    ";
  }
  return out;
}

Mistake::Mistake(std::string_view name, const Refusal& refusal, CallSite site)
    : name(name), status(refusal.status()), site(site) {}

void ExpectErrors(std::string_view area, const std::vector<Mistake>& mistakes,
                  const std::vector<std::pair<std::string, std::string>>& hidden) {
  std::string all;
  std::set<std::string> names;
  for (const Mistake& mistake : mistakes) {
    EXPECT_TRUE(names.insert(mistake.name).second) << mistake.name << " stands here twice";
    const absl::Status& status = mistake.status;
    EXPECT_FALSE(status.ok()) << mistake.name;
    std::string message(MessageOf(status));
    for (const auto& [from, to] : hidden) Replace(message, from, to);
    HidePlace(message, mistake.site);
    Replace(message, "\xff", "\\xff");  // the files are text
    Replace(message, std::string(1, '\0'), "\\0");
    std::string name = mistake.name;
    Replace(name, "\n", "\\n");
    if (!all.empty()) all += '\n';
    all += name;
    if (status.code() != absl::StatusCode::kInvalidArgument)
      all += " -> " + absl::StatusCodeToString(status.code());
    all += '\n' + Indented(message) + '\n';
  }
  ExpectGolden(fmt::format("errors/{}.txt", area), all);
}

}  // namespace meshwork
