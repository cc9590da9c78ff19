// Golden texts: what a test expects, in a file under tests/, compared exactly.
//
//   ExpectGolden("spmd/mlp/batch8.mw", PrintGraph(program.body));
//
// With UPDATE_GOLDEN=1 in the environment the files are rewritten; read the diff before you commit it.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "support/contents.h"

namespace meshwork {

inline bool UpdatesGolden() {
  const char* value = std::getenv("UPDATE_GOLDEN");
  return value != nullptr && std::string_view(value) == "1";
}

// `name` under tests/.
inline std::filesystem::path GoldenPath(std::string_view name) {
  return std::filesystem::path(MESHWORK_TEST_DIR) / name;
}

inline std::string ReadGolden(std::string_view name) { return Contents(GoldenPath(name)); }

inline void ExpectGolden(std::string_view name, const std::string& actual) {
  if (UpdatesGolden()) {
    std::filesystem::create_directories(GoldenPath(name).parent_path());
    std::ofstream(GoldenPath(name), std::ios::binary) << actual;
    return;
  }
  EXPECT_EQ(actual, ReadGolden(name)) << "tests/" << name << "; UPDATE_GOLDEN=1 rewrites it";
}

// The names under tests/ of the files in tests/`folder`, sorted.
inline std::vector<std::string> GoldenFiles(std::string_view folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(GoldenPath(folder), error))
    names.push_back(std::string(folder) + "/" + entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace meshwork
