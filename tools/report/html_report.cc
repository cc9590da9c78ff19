#include "meshwork/tools/report/html_report.h"

#include <string_view>

#include "fmt/format.h"
#include "meshwork/base/svg.h"
#include "meshwork/tools/report/page.h"

namespace meshwork {
namespace {

// A text between tags.
std::string EscapedHtml(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '<') out += "&lt;";
    else if (c == '>') out += "&gt;";
    else if (c == '&') out += "&amp;";
    else out += c;
  }
  return out;
}

// JSON for a <script>, which would end at the first </script> in it. In JSON, < occurs only in strings, where it is
// escaped.
std::string EscapedJson(std::string_view json) {
  std::string out;
  for (char c : json) {
    if (c == '<') out += "\\u003c";
    else out += c;
  }
  return out;
}

// The colours of all pictures of meshwork, as CSS variables.
std::string Colours() {
  const auto variables = [](bool dark) {
    std::string out =
        fmt::format("--page:{};--ink:{};--muted:{};--grid:{};", HexOf(Paint::kPage, dark),
                    HexOf(Paint::kInk, dark), HexOf(Paint::kMuted, dark), HexOf(Paint::kGrid, dark));
    for (int i = 0; i < kNumSeries; ++i) out += fmt::format("--series{}:{};", i, HexOf(SeriesPaint(i), dark));
    return out;
  };
  return fmt::format(":root{{{}}}\n@media (prefers-color-scheme: dark){{:root{{{}}}}}\n", variables(false),
                     variables(true));
}

}  // namespace

std::string HtmlReport(const Graph& global, const Program& program, const HtmlReportOptions& options) {
  const std::string_view page = kReportPage;
  std::string out;
  // The texts for the names in braces in page.html.
  const auto fill = [&](std::string_view name) -> std::string {
    if (name == "{{title}}")
      return EscapedHtml(fmt::format("{} on mesh {}", global.name, global.mesh().ToString()));
    if (name == "{{style}}") return Colours() + std::string(kReportStyle);
    if (name == "{{data}}") return EscapedJson(ReportJson(global, program, options));
    return std::string(kReportScript);
  };
  size_t at = 0;
  for (size_t open = 0; (open = page.find("{{", at)) != std::string_view::npos;) {
    const size_t end = page.find("}}", open) + 2;
    out += page.substr(at, open - at);
    out += fill(page.substr(open, end - open));
    at = end;
  }
  return out += page.substr(at);
}

}  // namespace meshwork
