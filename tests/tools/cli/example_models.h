// Shared by the tests of examples/models: the meshes whose losses must agree, and the table of docs/examples.md.
#pragma once

#include <regex>
#include <sstream>
#include <string>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "tools/cli/process.h"

namespace meshwork {

// The first is one device.
inline constexpr const char* kModelMeshes[] = {"batch=1", "batch=2", "model=2", "batch=2,model=2",
                                               "batch=4,model=2"};

// The number of lines with more than blanks and a // comment.
inline int CodeLines(const std::string& text) {
  static const std::regex kNoCode("\\s*(//.*)?");
  std::istringstream lines(text);
  int count = 0;
  for (std::string line; std::getline(lines, line);) count += std::regex_match(line, kNoCode) ? 0 : 1;
  return count;
}

// Expects that examples/models/NAME.cc has the number of lines in docs/examples.md, and no more than what was ported. A
// row is | [NAME](…) | original | its lines | those of what is ported | ours |.
inline void ExpectNotLongerThanTheOriginal(const std::string& name) {
  const std::string root = MESHWORK_TEST_DIR "/..", page = Contents(root + "/docs/examples.md");
  const int lines = CodeLines(Contents(fmt::format("{}/examples/models/{}.cc", root, name)));
  const std::regex row(fmt::format(
      R"(\| \[{0}\]\(\.\./examples/models/{0}\.cc\) \|[^|\n]*\| ([0-9]+) \| ([0-9]+) \| ([0-9]+) \|)", name));
  std::smatch columns;
  ASSERT_TRUE(std::regex_search(page, columns, row)) << "docs/examples.md has no row for " << name;
  const int all = std::stoi(columns[1]), ported = std::stoi(columns[2]), here = std::stoi(columns[3]);
  EXPECT_EQ(here, lines) << name << ", in docs/examples.md";
  EXPECT_LE(lines, ported) << name;
  EXPECT_LE(ported, all) << name << ": the ported lines are some of all";
}

}  // namespace meshwork
