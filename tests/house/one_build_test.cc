// The library is built in one way: what README tells a user to run is what CI runs, and neither ./dev nor .ci/run give CMake an
// option that a user's first build does not have, but for warnings that are errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace meshwork::one_build_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSubsetOf;

std::string TextOf(const std::string& path) {
  std::ifstream file(std::string(MESHWORK_TEST_DIR) + "/../" + path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
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

}  // namespace
}  // namespace meshwork::one_build_test
