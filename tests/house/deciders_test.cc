// Who decides where tensors lie is in one table, which a reader of docs/partitioner.md finds: nobody else in the compiler
// compares what layouts cost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "house/includes.h"
#include "support/contents.h"

namespace meshwork::deciders_test {
namespace {

using ::testing::IsEmpty;

constexpr char kCosts[] =
    R"re(#include "meshwork/((ir/plan/step_cost|layout/relayout_cost|spmd/(plan_step|choose_layouts|auto/[a-z_]+|planner/(move_seconds|held_values|layout_(table|costs|space)|solve_layouts)))\.h)")re";

std::filesystem::path Root() { return std::filesystem::path(MESHWORK_TEST_DIR).parent_path(); }

// The files in rows of the table, as from the folder spmd.
std::set<std::string> FilesOfTable() {
  const std::string page = Contents((Root() / "docs/partitioner.md").string());
  const size_t begin = page.find("## Who decides\n");
  const std::string section = page.substr(begin, page.find("\n## ", begin + 1) - begin);
  std::set<std::string> files;
  const std::regex name(R"(`([a-z_/]+\.cc)`)");
  std::istringstream lines(section);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("| ", 0) != 0) continue;
    for (std::sregex_iterator at(line.begin(), line.end(), name), end; at != end; ++at)
      files.insert((*at)[1]);
  }
  return files;
}

// The sources of rooms in spmd that see a cost, by themselves or by their own header.
std::set<std::string> FilesThatSeeCosts() {
  std::set<std::string> files;
  const std::regex costs(kCosts);
  for (const SourceFile& file : AllSources(Root())) {
    if (file.path.rfind("spmd/", 0) != 0 || !std::regex_search(file.text, costs)) continue;
    files.insert(std::filesystem::path(file.path.substr(5)).replace_extension(".cc").string());
  }
  return files;
}

std::set<std::string> Without(std::set<std::string> from, const std::set<std::string>& what) {
  for (const std::string& name : what) from.erase(name);
  return from;
}

TEST(DecidersTest, AllThatSeeCostsAreInTheTable) {
  const std::set<std::string> stated = FilesOfTable(), found = FilesThatSeeCosts();
  EXPECT_THAT(Without(found, stated), IsEmpty())
      << "see costs, and are not in the table of docs/partitioner.md";
  EXPECT_THAT(Without(stated, found), IsEmpty()) << "are in the table, and see no costs";
}

}  // namespace
}  // namespace meshwork::deciders_test
