// The tests that CMakePresets.json names exist: a test that is left out by an old name would be run.
#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "docs/page.h"
#include "docs/pages.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace meshwork::docs {
namespace {

namespace fs = std::filesystem;

// "MeshTest.RejectsDuplicateAxisNames", of all test programs. Those with parameters, too.
std::set<std::string> NamesOfTests() {
  static const std::regex test(R"(\nTEST(_F|_P)?\((\w+),\s*(\w+)\))");
  std::set<std::string> names;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(Root() / "tests")) {
    if (entry.path().extension() != ".cc") continue;
    const std::string text = Contents(entry.path());
    for (auto at = std::sregex_iterator(text.begin(), text.end(), test); at != std::sregex_iterator(); ++at)
      names.insert((*at)[2].str() + "." + (*at)[3].str());
  }
  return names;
}

// A pattern of --gtest_filter. A test with parameters has other names before and behind its own, for which
// "*" stands; the number of a parameter, "/2", may follow.
bool IsNameOfOne(const std::set<std::string>& names, const std::string& pattern) {
  static const std::regex number("/[0-9]+$");
  std::string text;
  for (char c : std::regex_replace(pattern, number, ""))
    text += c == '*' ? std::string(".*") : c == '.' ? std::string("\\.") : std::string(1, c);
  const std::regex regex(text);
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return std::regex_match(name, regex); });
}

TEST(PresetsTest, LeaveOutTestsThatThereAre) {
  const std::set<std::string> names = NamesOfTests();
  ASSERT_TRUE(names.contains("PresetsTest.LeaveOutTestsThatThereAre"));
  EXPECT_FALSE(IsNameOfOne(names, "PresetsTest.LeaveOut"));
  EXPECT_TRUE(IsNameOfOne(names, "*LeaveOutTestsThatThereAre/2"));
  EXPECT_FALSE(IsNameOfOne(names, "*LeaveOutTestsThatThereAre/"));
  int patterns = 0;
  const nlohmann::json presets = nlohmann::json::parse(Contents(Root() / "CMakePresets.json"));
  for (const nlohmann::json& preset : presets.at("testPresets")) {
    if (!preset.contains("environment")) continue;
    const std::string filter = preset.at("environment").at("GTEST_FILTER");
    ASSERT_TRUE(filter.starts_with("-")) << filter;
    std::istringstream left_out(filter.substr(1));
    for (std::string pattern; std::getline(left_out, pattern, ':'); ++patterns)
      EXPECT_TRUE(IsNameOfOne(names, pattern)) << preset.at("name") << ": " << pattern;
  }
  EXPECT_GE(patterns, 5);
}

// A test that is run but not built fails as "not run"; a test that is built but not run costs minutes. A
// preset that builds all tests runs all.
TEST(PresetsTest, RunWhatTheyBuild) {
  static const std::regex program("[a-z_]+");
  const nlohmann::json presets = nlohmann::json::parse(Contents(Root() / "CMakePresets.json"));
  int compared = 0;
  for (const nlohmann::json& build : presets.at("buildPresets")) {
    if (!build.contains("targets")) continue;
    for (const nlohmann::json& test : presets.at("testPresets")) {
      if (test.value("configurePreset", "") != build.at("configurePreset")) continue;
      std::set<std::string> built, run;
      for (const std::string target : build.at("targets")) built.insert(target);
      const std::string filter = test.at("filter").at("include").at("name");
      for (auto at = std::sregex_iterator(filter.begin(), filter.end(), program);
           at != std::sregex_iterator(); ++at)
        run.insert(std::regex_replace(at->str(), std::regex("_by_mpi$"), "") + "_test");
      EXPECT_EQ(run, built) << test.at("name");
      ++compared;
    }
  }
  EXPECT_EQ(compared, 2);
}

}  // namespace
}  // namespace meshwork::docs
