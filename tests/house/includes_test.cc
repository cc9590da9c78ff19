// The arrows between the rooms. The build makes sure that none runs upwards (cmake/rooms.cmake); this test
// lists them.
#include "house/includes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "fmt/format.h"
#include "support/contents.h"

namespace meshwork::includes_test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::IsEmpty;
using ::testing::Not;

// From the lowest room to the topmost. A new arrow is a line here, and a reason in the review: the fewer, the
// better.
const std::vector<Room>& House() {
  static const auto* house = new std::vector<Room>{

      {"base", {}},
      {"base/io", {"base"}},
      {"mesh", {"base"}},
      {"layout", {"base", "mesh"}},
      {"ir", {"base", "mesh", "layout"}},
      {"ir/plan", {"base", "mesh", "ir"}},
      {"ops/kernels/portable", {"base"}},
      {"ops/kernels", {"base", "layout", "ir", "ops/kernels/portable"}},
      {"ops/kernels/blas", {"base", "ir", "ops/kernels/portable", "ops/kernels"}},
      {"ops/kernels/cuda", {"base", "layout", "ir", "ops/kernels/portable", "ops/kernels"}},
      {"ops", {"base", "layout", "ir", "ops/kernels/portable", "ops/kernels"}},
      {"ops/control", {"base", "ir", "ops"}},
      {"verify", {"base", "layout", "ir", "ops/control"}},
      {"stablehlo", {"base", "mesh", "layout", "ir", "ops/kernels/portable", "ops/kernels"}},
      {"stablehlo/read", {"base", "mesh", "layout", "ir", "ops", "ops/control"}},
      {"spmd/solver", {"base"}},
      {"spmd/planner", {"base", "mesh", "layout", "ir", "ir/plan", "ops/control", "spmd/solver"}},
      {"spmd/rewrite", {"base", "ir", "ops", "ops/control", "spmd/planner"}},
      {"spmd/local", {"base", "mesh", "layout", "ir", "ir/plan", "ops/control", "spmd/planner"}},
      {"spmd",
       {"base", "mesh", "layout", "ir", "ir/plan", "ops/control", "verify", "spmd/planner", "spmd/rewrite",
        "spmd/local"}},
      {"spmd/auto", {"base", "mesh", "ir", "ir/plan", "ops/control", "spmd/planner", "spmd/rewrite", "spmd"}},
      {"runtime/tensor", {"base", "layout", "ir", "ops/kernels"}},
      {"runtime/plan", {"base", "mesh", "layout", "ir", "ir/plan", "ops/kernels", "runtime/tensor"}},
      {"runtime/exec", {"base", "mesh", "layout", "ir", "runtime/tensor", "runtime/plan"}},
      {"runtime/transport", {"base", "mesh", "runtime/exec"}},
      {"runtime/cpu",
       {"base", "ir", "ir/plan", "ops/kernels", "ops/kernels/blas", "runtime/tensor", "runtime/plan",
        "runtime/exec"}},
      {"runtime/cuda",
       {"base", "base/io", "ir", "ir/plan", "ops/kernels/cuda", "runtime/tensor", "runtime/plan",
        "runtime/exec"}},
      {"runtime/pjrt", {"base", "ir", "stablehlo", "runtime/plan", "runtime/exec"}},
      {"storage",
       {"base", "base/io", "mesh", "layout", "ir", "runtime/tensor", "runtime/plan", "runtime/exec"}},
      {"session",
       {"base", "base/io", "mesh", "layout", "ir", "ir/plan", "ops", "ops/control", "spmd/rewrite", "spmd",
        "spmd/auto", "runtime/tensor", "runtime/plan", "runtime/exec", "runtime/cpu", "runtime/cuda",
        "runtime/pjrt", "storage"}},
      {"session/saved", {"base", "base/io", "mesh", "ir", "verify", "spmd", "storage", "session"}},
      {"train/data",
       {"base", "base/io", "layout", "ir", "runtime/tensor", "runtime/exec", "runtime/cpu", "storage"}},
      {"train/nn", {"base", "ir", "ops", "ops/control", "runtime/tensor", "session"}},
      {"train/optim", {"base", "ir", "ops", "ops/control", "runtime/exec", "session", "train/nn"}},
      {"train/log", {"base", "base/io", "ir", "runtime/tensor", "storage"}},
      {"train/cluster",
       {"base", "base/io", "mesh", "layout", "runtime/tensor", "runtime/exec", "runtime/transport",
        "runtime/cpu", "storage", "session"}},
      {"train/fit",
       {"base", "base/io", "ir", "ops/control", "runtime/tensor", "runtime/exec", "storage", "train/data",
        "session", "train/nn", "train/optim", "train/log", "train/cluster"}},
      {"train/strategy",
       {"base", "mesh", "ir", "ops", "ops/control", "runtime/tensor", "runtime/cpu", "runtime/pjrt",
        "train/data", "session", "train/optim", "train/cluster"}},
      {"train/parameter_server",
       {"base", "base/io", "mesh", "ir", "ops", "ops/control", "spmd/rewrite", "runtime/tensor",
        "runtime/exec", "storage", "session", "train/nn", "train/fit"}},
      {"train/parameter_server/rpc",
       {"base", "mesh", "ir", "runtime/tensor", "runtime/transport", "storage", "train/data", "session",
        "train/cluster", "train/fit", "train/strategy", "train/parameter_server"}},
      {"tools/check",
       {"base", "mesh", "layout", "ir", "ops/kernels/blas", "ops", "spmd", "runtime/tensor", "runtime/plan",
        "runtime/exec", "runtime/cpu"}},
      {"tools/simulate",
       {"base", "mesh", "ir", "ir/plan", "ops/control", "spmd", "runtime/plan", "runtime/exec",
        "runtime/cpu"}},
      {"tools/report",
       {"base", "mesh", "layout", "ir", "ir/plan", "verify", "spmd", "spmd/auto", "tools/simulate"}},
  };
  return *house;
}

std::filesystem::path Root() { return std::filesystem::path(MESHWORK_TEST_DIR).parent_path(); }

TEST(IncludesTest, AreTheArrowsOfTheHouseAndNoOthers) {
  std::vector<std::string> findings;
  const Arrows arrows = ArrowsOf(AllSources(Root()), findings);
  EXPECT_THAT(findings, IsEmpty());
  EXPECT_THAT(Differences(House(), arrows), IsEmpty());
}

// A room that the build has and the table has not would be seen by nobody.
TEST(IncludesTest, EveryRoomIsInTheTable) {
  std::vector<std::string> listed;
  for (const Room& known : House()) listed.emplace_back(known.name);
  EXPECT_THAT(RoomsOf(Root()), ElementsAreArray(listed));
}

// A folder includes nothing of the folders above it, wherever its rooms stand in the build.
std::vector<std::string> FoldersUpwards(const Arrows& arrows) {
  std::vector<std::string> rooms, upwards;
  for (const Room& room : House()) rooms.emplace_back(room.name);
  const std::vector<std::string> folders = FoldersOf(rooms);
  const auto place = [&](const std::string& folder) {
    return std::find(folders.begin(), folders.end(), folder) - folders.begin();
  };
  for (const auto& [from, included] : FolderArrows(arrows))
    for (const auto& [to, file] : included)
      if (place(to) > place(from)) upwards.push_back(fmt::format("{} -> {}: {}", from, to, file));
  return upwards;
}

TEST(IncludesTest, NoFolderIncludesOneAboveIt) {
  std::vector<std::string> findings;
  EXPECT_THAT(FoldersUpwards(ArrowsOf(AllSources(Root()), findings)), IsEmpty());
}

TEST(IncludesTest, AFolderThatIncludesOneAboveItIsFound) {
  std::vector<std::string> findings;
  std::vector<SourceFile> files = AllSources(Root());
  files.push_back({"runtime/cuda/new.cc", "#include \"meshwork/storage/checkpoint.h\"\n"});
  EXPECT_THAT(FoldersUpwards(ArrowsOf(files, findings)),
              ElementsAre("runtime -> storage: runtime/cuda/new.cc"));
}

// Each installed header compiles with nothing but the installed headers.
TEST(IncludesTest, InstalledHeadersIncludeInstalledOnes) {
  const std::filesystem::path root = Root();
  std::ifstream list(MESHWORK_INSTALLED_HEADERS);
  if (!list) GTEST_SKIP() << "built without MESHWORK_INSTALL";
  std::vector<SourceFile> installed;
  for (std::string path; std::getline(list, path);) {
    if (path.empty()) continue;
    ASSERT_TRUE(std::filesystem::exists(root / path)) << "docs/api.md names " << path;
    installed.push_back({path, Contents(root / path)});
  }
  EXPECT_GT(installed.size(), 100);
  installed.push_back({"meshwork.h", Contents(root / "meshwork.h")});
  // So do the examples: each can be built beside an installed meshwork.
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root / "examples"))
    if (const std::string type = entry.path().extension(); type == ".h" || type == ".cc")
      installed.push_back({entry.path().lexically_relative(root).string(), Contents(entry.path())});
  EXPECT_THAT(MissingHeaders(installed), IsEmpty());
}

// The checker of programs shares no code with the compiler's passes.
TEST(IncludesTest, TheCheckerSeesNoPass) {
  std::vector<std::string> findings;
  std::vector<std::string> seen = {"verify"};  // rooms that verify includes, and what these include
  const Arrows arrows = ArrowsOf(AllSources(Root()), findings);
  for (size_t i = 0; i < seen.size(); ++i)
    for (const auto& entry : arrows.at(std::string(seen[i])))
      if (std::find(seen.begin(), seen.end(), entry.first) == seen.end()) seen.push_back(entry.first);
  EXPECT_THAT(seen, Contains("ir"));
  for (const char* room : {"ir/plan", "spmd", "spmd/planner", "runtime/plan", "ops/kernels/blas"})
    EXPECT_THAT(seen, Not(Contains(room)));
}

// The tests above are of no use if this does not hold.
TEST(IncludesTest, AnotherArrowIsFound) {
  std::vector<SourceFile> files = AllSources(Root());
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
