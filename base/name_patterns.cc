#include "meshwork/base/name_patterns.h"

#include <fnmatch.h>

namespace meshwork {

bool IsPattern(std::string_view name) { return name.find_first_of("*?[") != std::string_view::npos; }

bool MatchesPattern(const std::string& name, const std::string& pattern) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

}  // namespace meshwork
