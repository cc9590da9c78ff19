// The library is built in one way: what README tells a user to run is what CI runs, and neither ./dev nor .ci/run give
// CMake an option that a user's first build does not have, but for warnings that are errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "support/contents.h"

namespace meshwork::one_build_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSubsetOf;

std::string TextOf(const std::string& path) {
  return Contents(std::string(MESHWORK_TEST_DIR) + "/../" + path);
}

// The options of CMake that the text sets, as -DNAME=, or as a variable of the environment, NAME=.
std::set<std::string> OptionsOf(const std::string& text) {
  const std::string options = TextOf("CMakeLists.txt");
  std::set<std::string> found;
  const std::regex setting(R"((MESHWORK_[A-Z_]+)=)");
  for (std::sregex_iterator at(text.begin(), text.end(), setting), end; at != end; ++at)
    if (options.find("option(" + (*at)[1].str() + " ") != std::string::npos ||
        options.find("set(" + (*at)[1].str() + " ") != std::string::npos)
      found.insert((*at)[1]);
  return found;
}

TEST(OneBuildTest, CiBuildsWhatUsersBuild) {
  EXPECT_THAT(OptionsOf(TextOf(".ci/run")), IsSubsetOf({"MESHWORK_WERROR"}));
  EXPECT_THAT(OptionsOf(TextOf("dev")), IsSubsetOf({"MESHWORK_WERROR"}));
  EXPECT_THAT(TextOf("CMakeLists.txt"), HasSubstr("option(MESHWORK_WERROR \"Warnings are errors\" OFF)"));
}

// The bare machine runs README's commands, which .ci/run reads there.
TEST(OneBuildTest, CiRunsReadmesCommands) {
  const std::string readme = TextOf("README.md"), ci = TextOf(".ci/run");
  const size_t begin = readme.find("## Two commands\n"), end = readme.find("\n## ", begin + 1);
  ASSERT_NE(begin, std::string::npos);
  const std::string section = readme.substr(begin, end - begin);
  std::vector<std::string> commands;
  const std::regex command(R"((^|\n)(\./dev [a-z]+) )");
  for (std::sregex_iterator at(section.begin(), section.end(), command), last; at != last; ++at)
    commands.push_back((*at)[2]);
  EXPECT_THAT(commands, ElementsAre("./dev mnist", "./dev test"));
  EXPECT_THAT(ci, HasSubstr("bash -ec \"$first; "));
  EXPECT_THAT(ci, HasSubstr("bash -ec \"$(readme_commands)\""));
}

// A folder of tests that no test program is made of would be compiled by nobody.
TEST(OneBuildTest, EveryFolderOfTestsIsInAProgram) {
  const std::filesystem::path tests = MESHWORK_TEST_DIR;
  const std::string text = TextOf("tests/CMakeLists.txt");
  std::set<std::string> built, present;
  const std::regex program(R"(meshwork_test\(([a-z_]+)([^)]*)\))");
  for (std::sregex_iterator at(text.begin(), text.end(), program), end; at != end; ++at) {
    std::istringstream words((*at)[2].str());
    bool is_folder = false, has_folders = false;
    for (std::string word; words >> word;) {
      if (word == "FOLDERS") has_folders = is_folder = true;
      else if (word == "LIBS" || word == "READ_BACK" || word == "COMPUTES") is_folder = false;
      else if (is_folder) built.insert(word);
    }
    if (!has_folders) built.insert((*at)[1]);
  }
  for (const auto& entry : std::filesystem::recursive_directory_iterator(tests))
    if (entry.path().filename().string().ends_with("_test.cc"))
      present.insert(entry.path().parent_path().lexically_relative(tests).string());
  EXPECT_GT(present.size(), 30u);
  EXPECT_THAT(present, IsSubsetOf(built));
}

}  // namespace
}  // namespace meshwork::one_build_test
