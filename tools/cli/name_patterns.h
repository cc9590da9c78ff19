// Patterns of names (base/name_patterns.h) in flags, and layouts for the tensors that they match.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace meshwork::tools {

// Checks the patterns that are given by `flag`. Error: a pattern fits none of the names; with the nearest name.
absl::Status CheckPatterns(std::string_view flag, const std::vector<std::string>& patterns,
                           const std::vector<std::string>& names);

struct PatternLayout {
  std::string pattern, layout;
};

// Reads "w*={batch,_}", as --layout takes it. Error: it is not a name and a layout.
absl::StatusOr<PatternLayout> ParsePatternLayout(const std::string& text);

}  // namespace meshwork::tools
