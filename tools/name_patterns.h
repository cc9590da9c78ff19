// Which names a user means: patterns as of a shell, where * is any text, ? is any character and [ab] is a or b.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace meshwork::tools {

bool MatchesPattern(const std::string& name, const std::string& pattern);

// Of `patterns`, which stand in `flag`. Error: one of them fits none of the names; with the nearest name.
absl::Status CheckPatterns(std::string_view flag, const std::vector<std::string>& patterns,
                           const std::vector<std::string>& names);

}  // namespace meshwork::tools
