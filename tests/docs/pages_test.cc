// Links between the pages lead somewhere, and no block hides from the test of blocks.
#include "docs/pages.h"

#include <cctype>
#include <filesystem>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "docs/page.h"
#include "fmt/format.h"
#include "gtest/gtest.h"

namespace meshwork::docs {
namespace {

namespace fs = std::filesystem;

// The page without its fenced blocks and hidden statements.
std::vector<std::string> Prose(const fs::path& page) {
  std::vector<std::string> prose;
  bool inside = false;
  for (const std::string& line : Lines(Contents(page))) {
    if (FenceIndent(line) != std::string::npos || line.starts_with("<!--") || line == "-->") inside = !inside;
    else if (!inside) prose.push_back(line);
  }
  return prose;
}

// What a heading is called in a link: "Blocks, and padding" -> "blocks-and-padding".
std::string Anchor(std::string_view heading) {
  std::string anchor;
  for (char c : heading) {
    if (c == ' ') anchor += '-';
    else if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_')
      anchor += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return anchor;
}

std::set<std::string> Anchors(const fs::path& page) {
  std::set<std::string> anchors;
  for (const std::string& line : Prose(page))
    if (line.starts_with("#")) anchors.insert(Anchor(line.substr(line.find_first_not_of("# "))));
  return anchors;
}

TEST(PagesTest, LinksLeadToFilesAndHeadings) {
  const std::regex link(R"x((\]\(|src="|srcset="|href=")([^)"]+)[)"])x");
  int links = 0;
  for (const std::string& page : Pages()) {
    for (const std::string& line : Prose(Root() / page)) {
      for (auto at = std::sregex_iterator(line.begin(), line.end(), link); at != std::sregex_iterator();
           ++at) {
        const std::string target = (*at)[2];
        if (target.starts_with("https://")) continue;
        ++links;
        const std::string file = target.substr(0, target.find('#'));
        const fs::path path = file.empty() ? Root() / page : (Root() / page).parent_path() / file;
        EXPECT_TRUE(fs::exists(path)) << page << ": " << target;
        if (target.find('#') == std::string::npos) continue;
        EXPECT_TRUE(Anchors(path).contains(target.substr(target.find('#') + 1))) << page << ": " << target;
      }
    }
  }
  EXPECT_GT(links, 30);
}

// Blocks of other forms would go unchecked.
TEST(PagesTest, CodeStandsBetweenBackquotes) {
  for (const std::string& page : Pages()) {
    bool empty = true;  // the line before
    for (const std::string& line : Prose(Root() / page)) {
      EXPECT_FALSE(line.starts_with("~~~") || line.starts_with("<pre") || (empty && line.starts_with("    ")))
          << page << ": " << line;
      empty = line.empty();
    }
  }
}

// Who starts at the README finds every page.
TEST(PagesTest, TheIndexNamesEveryPage) {
  const std::string index = Contents(Root() / "docs/README.md");
  for (const std::string& page : Pages()) {
    const fs::path path(page);
    if (path.parent_path() != "docs" || page == "docs/README.md") continue;
    EXPECT_NE(index.find(fmt::format("({})", path.filename().string())), std::string::npos) << page;
  }
  EXPECT_NE(Contents(Root() / "README.md").find("(docs/README.md)"), std::string::npos);
}

// Files and folders of the repository that pages name, `tests/spmd/cases` or `cmake/rooms.cmake`, are there. A program
// is named without what it is made of: `benchmarks/slow_link`. Headers: the next test.
TEST(PagesTest, FilesThatTheyNameExist) {
  const std::regex path(
      "`((cmake|docs|examples|benchmarks|tests|base|mesh|layout|ir|ops|verify|spmd|runtime|storage|train|tools)/[A-Za-z0-9_/.-]+)`");
  int named = 0;
  for (const std::string& page : Pages()) {
    if (page == "CHANGELOG.md") continue;  // it names what was
    const std::string text = Contents(Root() / page);
    for (auto at = std::sregex_iterator(text.begin(), text.end(), path); at != std::sregex_iterator(); ++at) {
      const fs::path name = Root() / (*at)[1].str();
      ++named;
      EXPECT_TRUE(fs::exists(name) || fs::exists(name.string() + ".cc")) << page << ": " << (*at)[1];
    }
  }
  EXPECT_GT(named, 200);
}

// Pages about the library's sources, which name any of them. All others are for users, who find every header that a
// page names where meshwork is installed.
const std::set<std::string> kPagesOfTheSources = {
    "CHANGELOG.md",    "docs/architecture.md", "docs/decisions.md", "docs/extending.md",
    "docs/kernels.md", "docs/partitioner.md",  "docs/runtime.md"};

TEST(PagesTest, HeadersThatTheyNameAreInstalled) {
  if (!fs::exists(MESHWORK_INSTALLED_HEADERS)) GTEST_SKIP() << "built without MESHWORK_INSTALL";
  std::set<std::string> installed;
  for (const std::string& header : Lines(Contents(MESHWORK_INSTALLED_HEADERS))) installed.insert(header);
  const std::regex header("`([a-z_]+(/[a-z0-9_]+)+\\.h)`");
  int named = 0;
  for (const std::string& page : Pages()) {
    if (kPagesOfTheSources.contains(page)) continue;
    const std::string text = Contents(Root() / page);
    for (auto at = std::sregex_iterator(text.begin(), text.end(), header); at != std::sregex_iterator();
         ++at) {
      const std::string name = (*at)[1];
      if (name.starts_with("examples/") || name.starts_with("benchmarks/") || name.starts_with("tests/"))
        continue;
      ++named;
      EXPECT_TRUE(installed.contains(name)) << page << ": " << name;
    }
  }
  EXPECT_GT(named, 40);
}

}  // namespace
}  // namespace meshwork::docs
