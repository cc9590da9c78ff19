#include "tools/name_patterns.h"

#include <fnmatch.h>

#include <algorithm>

#include "meshwork/base/status.h"
#include "meshwork/base/suggest.h"

namespace meshwork::tools {

bool MatchesPattern(const std::string& name, const std::string& pattern) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

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

}  // namespace meshwork::tools
