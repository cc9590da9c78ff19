// Which names a user means: patterns as of a shell, where * stands for any characters, ? for one, and [ab] for a or b.
//
// Pure functions; thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace meshwork {

bool IsPattern(std::string_view name);
bool MatchesPattern(const std::string& name, const std::string& pattern);

}  // namespace meshwork
