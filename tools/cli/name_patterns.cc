#include "tools/cli/name_patterns.h"

#include <algorithm>

#include "meshwork/base/name_patterns.h"
#include "meshwork/base/status.h"
#include "meshwork/base/suggest.h"

namespace meshwork::tools {

absl::Status CheckPatterns(std::string_view flag, const std::vector<std::string>& patterns,
                           const std::vector<std::string>& names) {
  for (const std::string& pattern : patterns) {
    if (std::any_of(names.begin(), names.end(),
                    [&](const std::string& name) { return MatchesPattern(name, pattern); }))
      continue;
    return InvalidArgument("--{}: no variable is called \"{}\"{}", flag, pattern,
                           DidYouMeanOneOf(pattern, names, "variables"));
  }
  return absl::OkStatus();
}

absl::StatusOr<PatternLayout> ParsePatternLayout(const std::string& text) {
  const size_t equals = text.find("={");
  if (equals == std::string::npos || equals == 0)
    return InvalidArgument("--layout: \"{}\" is no name and layout; write for example 'w={{batch,_}}'.",
                           text);
  return PatternLayout{text.substr(0, equals), text.substr(equals + 1)};
}

}  // namespace meshwork::tools
