// The arrows between the rooms. The build sees to it that none runs back (cmake/rooms.cmake); this says which
// there are.
#include "house/includes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>

namespace meshwork::includes_test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::UnorderedElementsAreArray;

// From the lowest room to the topmost. A new arrow is a line here, and a reason in the review: the fewer, the
// better.
const std::vector<Room>& House() {
  static const auto* house = new std::vector<Room>{
      {"base", {}},
      {"mesh", {"base"}},
      {"layout", {"base", "mesh"}},
      {"ir", {"base", "mesh", "layout"}},
      {"kernels", {"base", "layout", "ir"}},
      {"ops", {"base", "layout", "ir", "kernels"}},
      {"kernels/blas", {"base", "ir", "kernels", "ops"}},
      {"kernels/cuda", {"base", "ir", "layout", "ops"}},
      {"control", {"base", "ir", "ops"}},
      {"plan", {"base", "mesh", "ir"}},
      {"verify", {"base", "layout", "ir", "control"}},
      {"search", {"base"}},
      {"planner", {"base", "mesh", "layout", "ir", "control", "plan", "search"}},
      {"spmd", {"base", "mesh", "layout", "ir", "ops", "control", "plan", "verify", "planner"}},
      {"runtime", {"base", "mesh", "layout", "ir", "kernels", "plan"}},
      {"runtime/transport", {"base", "mesh", "runtime"}},
      {"runtime/cpu", {"base", "ir", "kernels", "kernels/blas", "plan", "runtime"}},
      {"storage", {"base", "mesh", "layout", "ir", "runtime"}},
      {"runtime/cuda", {"base", "ir", "kernels/cuda", "plan", "runtime", "storage"}},
      {"check", {"base", "mesh", "layout", "ir", "kernels/blas", "ops", "spmd", "runtime", "runtime/cpu"}},
      {"train",
       {"base", "mesh", "layout", "ir", "ops", "control", "plan", "spmd", "runtime", "runtime/transport",
        "runtime/cpu", "runtime/cuda", "storage"}},
      {"simulate", {"base", "mesh", "ir", "control", "plan", "spmd", "runtime", "runtime/cpu"}},
      {"report", {"base", "mesh", "layout", "ir", "plan", "verify", "spmd", "simulate"}},
      {"strategy", {"base", "mesh", "ir", "ops", "control", "runtime", "runtime/cpu", "train"}},
      {"parameter_server", {"base", "mesh", "ir", "ops", "control", "spmd", "runtime", "storage", "train"}},
      {"parameter_server/rpc",
       {"base", "mesh", "ir", "runtime", "runtime/transport", "storage", "train", "strategy",
        "parameter_server"}},
  };
  return *house;
}

std::vector<SourceFile> AllSources() {
  const std::filesystem::path root = std::filesystem::path(MESHWORK_TEST_DIR).parent_path();
  std::vector<SourceFile> files;
  for (const Room& room : House())
    for (SourceFile& file : SourcesOf(root, room.name)) files.push_back(std::move(file));
  return files;
}

TEST(IncludesTest, AreTheArrowsOfTheHouseAndNoOthers) {
  std::vector<std::string> findings;
  const Arrows arrows = ArrowsOf(AllSources(), findings);
  EXPECT_THAT(findings, IsEmpty());
  EXPECT_THAT(Differences(House(), arrows), IsEmpty());
}

// A room that the build has and the table has not would be seen by nobody.
TEST(IncludesTest, EveryRoomIsInTheTable) {
  const std::filesystem::path root = std::filesystem::path(MESHWORK_TEST_DIR).parent_path();
  std::ifstream file(root / "CMakeLists.txt");
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  static const auto* const room = new std::regex("meshwork_room\\(([a-z/_]+)");
  std::vector<std::string> built, listed;
  for (auto it = std::sregex_iterator(text.begin(), text.end(), *room); it != std::sregex_iterator(); ++it)
    built.push_back((*it)[1].str());
  for (const Room& known : House()) listed.emplace_back(known.name);
  EXPECT_THAT(built, UnorderedElementsAreArray(listed));
}

// With nothing but the installed headers, each compiles.
TEST(IncludesTest, InstalledHeadersIncludeInstalledOnes) {
  const std::filesystem::path root = std::filesystem::path(MESHWORK_TEST_DIR).parent_path();
  std::ifstream list(MESHWORK_INSTALLED_HEADERS);
  if (!list) GTEST_SKIP() << "built without MESHWORK_INSTALL";
  std::vector<SourceFile> installed;
  for (std::string path; std::getline(list, path);) {
    if (path.empty()) continue;
    std::ifstream file(path, std::ios::binary);
    ASSERT_TRUE(file) << path;
    installed.push_back({std::filesystem::path(path).lexically_relative(root).string(),
                         {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()}});
  }
  EXPECT_GT(installed.size(), 100);
  EXPECT_THAT(MissingHeaders(installed), IsEmpty());
}

// What proves a program shares nothing with what made it.
TEST(IncludesTest, TheCheckerSeesNoPass) {
  std::vector<std::string> findings;
  std::vector<std::string> seen = {"verify"};  // rooms that verify includes, and what these include
  const Arrows arrows = ArrowsOf(AllSources(), findings);
  for (size_t i = 0; i < seen.size(); ++i)
    for (const auto& entry : arrows.at(std::string(seen[i])))
      if (std::find(seen.begin(), seen.end(), entry.first) == seen.end()) seen.push_back(entry.first);
  EXPECT_THAT(seen, Contains("ir"));
  for (const char* room : {"plan", "spmd", "runtime", "kernels/blas"}) EXPECT_THAT(seen, Not(Contains(room)));
}

// The tests above are of no use if this does not hold.
TEST(IncludesTest, AnotherArrowIsFound) {
  std::vector<SourceFile> files = AllSources();
  files.push_back({"verify/new.cc", "#include \"meshwork/spmd/compile.h\"\n"});
  files.push_back({"mesh/new.h", "#include <vector>\n\n#include \"meshwork/layout/layout.h\"\n"});
  std::vector<std::string> findings;
  EXPECT_THAT(Differences(House(), ArrowsOf(files, findings)),
              ElementsAre("mesh -> layout: mesh/new.h includes a header of it",
                          "verify -> spmd: verify/new.cc includes a header of it"));
}

TEST(IncludesTest, AMissingHeaderIsFound) {
  EXPECT_THAT(MissingHeaders({{"a/a.h", "#include <vector>\n#include \"meshwork/a/b.h\"\n"},
                              {"a/b.h", "#include \"fmt/format.h\"\n#include \"meshwork/c/c.h\"\n"}}),
              ElementsAre("a/b.h includes c/c.h, which is missing"));
}

TEST(IncludesTest, WhatTheTableHasTooMuchIsFound) {
  const std::vector<SourceFile> files = {
      {"a/a.h", "#include \"meshwork/a/b.h\""},
      {"b/b.cc", "#include \"a/a.h\"\n#include \"absl/status/status.h\"\n"}};
  std::vector<std::string> findings;
  const Arrows arrows = ArrowsOf(files, findings);
  EXPECT_THAT(findings,
              ElementsAre("b/b.cc includes \"a/a.h\", which is not spelled \"meshwork/<room>/<file>.h\""));
  EXPECT_THAT(Differences({{"a", {"b"}}, {"b", {"a"}}, {"c", {}}}, arrows),
              ElementsAre("a -> b: is not below it", "a -> b: no file needs it", "b -> a: no file needs it",
                          "c: there is no such room"));
}

}  // namespace
}  // namespace meshwork::includes_test
