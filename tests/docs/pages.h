// The pages that are checked: the README, CONTRIBUTING, CHANGELOG, all of docs/, and those of examples.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

namespace meshwork::docs {

inline std::filesystem::path Root() { return std::filesystem::path(MESHWORK_TEST_DIR).parent_path(); }

// Relative to Root().
inline std::vector<std::string> Pages() {
  std::vector<std::string> pages = {"README.md", "CONTRIBUTING.md", "CHANGELOG.md",
                                    "examples/multi_worker/README.md"};
  for (const auto& entry : std::filesystem::directory_iterator(Root() / "docs"))
    if (entry.path().extension() == ".md") pages.push_back("docs/" + entry.path().filename().string());
  std::sort(pages.begin(), pages.end());
  return pages;
}

}  // namespace meshwork::docs
