// Two files must not define different things with one name.
#include "house/definitions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "fmt/format.h"

namespace meshwork::definitions_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<std::string> NamesIn(std::string text) {
  std::vector<std::string> names;
  for (const TypeDefinition& type : TypesOf({"a.h", std::move(text)})) names.push_back(type.name);
  return names;
}

// The whole house, and what its tests share: they are linked into one program.
std::vector<SourceFile> AllSources() {
  const std::filesystem::path root = std::filesystem::path(MESHWORK_TEST_DIR).parent_path();
  std::vector<SourceFile> files;
  const std::vector<std::string> left_out = {"build", "docs", "examples", "benchmarks", "tools/cli"};
  for (auto it = std::filesystem::recursive_directory_iterator(root);
       it != std::filesystem::recursive_directory_iterator(); ++it) {
    const std::string path = it->path().lexically_relative(root).string();
    if (!it->is_directory()) continue;
    // Programs of their own, and folders that hold none of our sources.
    if (path.starts_with(".") || std::find(left_out.begin(), left_out.end(), path) != left_out.end()) {
      it.disable_recursion_pending();
      continue;
    }
    for (SourceFile& file : SourcesOf(root, path)) files.push_back(std::move(file));
  }
  return files;
}

TEST(DefinitionsTest, EveryTypeIsDefinedOnce) {
  const std::vector<SourceFile> files = AllSources();
  size_t num_types = 0;
  for (const SourceFile& file : files) num_types += TypesOf(file).size();
  EXPECT_GT(num_types, 500u);
  EXPECT_THAT(DefinedTwice(files), IsEmpty());
}

// The files of a room that are compiled together differ between builds. Tests are in namespaces of their own.
TEST(DefinitionsTest, FilesOfARoomCanBeCompiledAsOne) {
  std::vector<SourceFile> files = AllSources();
  std::erase_if(files, [](const SourceFile& file) { return file.path.starts_with("tests/"); });
  size_t num_names = 0;
  for (const SourceFile& file : files) num_names += LocalNamesOf(file).size();
  EXPECT_GT(num_names, 2000u);
  EXPECT_THAT(LocalNamesThatCollide(files), IsEmpty());
}

// The tests above are of no use if these do not hold.
TEST(DefinitionsTest, ATypeOfTheSameNameIsFound) {
  const SourceFile first{"a/a.h", "namespace meshwork {\nstruct Piece {\n  int a;\n};\n}\n"};
  const SourceFile second{"b/b.cc", "namespace meshwork {\nclass Piece final : public Base {};\n}\n"};
  EXPECT_THAT(DefinedTwice({first, second}), ElementsAre("meshwork::Piece: a/a.h, b/b.cc"));
}

std::string InNoNamespace(std::string_view text) {
  return fmt::format("namespace a {{\nnamespace {{\n{}\n}}\n}}\n", text);
}

TEST(DefinitionsTest, LocalNamesThatCollideAreFound) {
  const std::vector<std::string> tables = {
      "struct Table {};",
      "using Table = std::vector<int>;",
      "constexpr int Table[] = {1};",
      "const int Table = 3;",
      "enum class Table { kA };",
      "std::string Table(const Row& row) { return {}; }",
      "template <typename T>\nint Table(const Row& r, const T* = nullptr, int (*f)(int) = F) {}"};
  for (size_t i = 0; i < tables.size(); ++i) {
    for (size_t j = 0; j < tables.size(); ++j) {
      const SourceFile first{"a/a.cc", InNoNamespace(tables[i])};
      const auto collide = [&](std::string path, const std::string& text) {
        return !LocalNamesThatCollide({first, {std::move(path), InNoNamespace(text)}}).empty();
      };
      const bool overloads = i != j && i >= 5 && j >= 5;
      EXPECT_EQ(collide("a/b.cc", tables[j]), !(overloads || (i == j && i == 1))) << tables[i] << tables[j];
      EXPECT_FALSE(collide("b/b.cc", tables[j])) << tables[i] << tables[j];
      EXPECT_FALSE(collide("a/a.cc", tables[j])) << tables[i] << tables[j];
    }
  }
  const SourceFile other{
      "a/b.cc", "namespace a {\nclass Table {\n  int Row() { return Table(); }\n};\nint Table();\n}\n"};
  EXPECT_THAT(LocalNamesOf(other), IsEmpty());
  EXPECT_THAT(
      LocalNamesThatCollide({{"a/a.cc", InNoNamespace(tables[0])}, {"a/b.cc", InNoNamespace(tables[5])}}),
      ElementsAre("a::::Table: a/a.cc, a/b.cc"));
  // The names of parameters, and how their list is broken, make no other function.
  EXPECT_THAT(LocalNamesThatCollide(
                  {{"a/a.cc", InNoNamespace("int F(const A<B, C>& a, int n) { return 0; }")},
                   {"a/b.cc", InNoNamespace("int F(const A<B, C>& b,\n      int) noexcept { return 1; }")}}),
              ElementsAre("a::::F: a/a.cc, a/b.cc"));
}

TEST(DefinitionsTest, KnowsWhatIsADefinition) {
  EXPECT_THAT(
      NamesIn(
          "namespace a::b {\nenum class E : int { kA };\nunion U { int i; };\n"
          "template <class T, class S = T>\nstruct alignas(64) V : std::vector<T> {\n  struct In {};\n};\n"
          "template <>\nstruct V<int> {};\n}\nnamespace c { struct D {}; struct D::Impl {}; }\n"),
      ElementsAre("a::b::E", "a::b::U", "a::b::V", "a::b::V<int>", "c::D", "c::D::Impl"));
  EXPECT_THAT(
      NamesIn(
          "namespace a {\nnamespace {\nstruct A {};\n}\nstruct B;\nstruct C c = {1};\n"
          "// struct D {\n/* struct E { */\nconst char* f = \"struct F {\";\nconst char* g = R\"(struct G {)\";\n"
          "struct H Make(struct I i) { struct J {}; }\nenum class K : int;\nchar l = '{';\nint m = 1'000;\n"
          "template <class N> void Call() {}\n#define O struct P {\n}\n"),
      IsEmpty());
  EXPECT_THAT(NamesIn("struct MayBeTheirs {};"), SizeIs(0));
}

}  // namespace
}  // namespace meshwork::definitions_test
