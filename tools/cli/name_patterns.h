// Patterns of names (base/name_patterns.h) in flags, and layouts for the tensors that they mean.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace meshwork::tools {

// Of `patterns`, which stand in `flag`. Error: one of them fits none of the names; with the nearest name.
absl::Status CheckPatterns(std::string_view flag, const std::vector<std::string>& patterns,
                           const std::vector<std::string>& names);

struct PatternLayout {
  std::string pattern, layout;
};

// "w*={batch,_}", as --layout has it. Error: it is no name and layout.
absl::StatusOr<PatternLayout> ParsePatternLayout(const std::string& text);

}  // namespace meshwork::tools
