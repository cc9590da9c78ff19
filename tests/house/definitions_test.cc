// Two files that define a type of one name.
#include "house/definitions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

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
TEST(DefinitionsTest, EveryTypeIsDefinedOnce) {
  const std::filesystem::path root = std::filesystem::path(MESHWORK_TEST_DIR).parent_path();
  std::vector<SourceFile> files;
  size_t num_types = 0;
  const std::vector<std::string> left_out = {"build", "docs", "examples", "benchmarks", "tools"};
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
  for (const SourceFile& file : files) num_types += TypesOf(file).size();
  EXPECT_GT(num_types, 500u);
  EXPECT_THAT(DefinedTwice(files), IsEmpty());
}

// The test above is of no use if these do not hold.
TEST(DefinitionsTest, ATypeOfTheSameNameIsFound) {
  const SourceFile first{"a/a.h", "namespace meshwork {\nstruct Piece {\n  int a;\n};\n}\n"};
  const SourceFile second{"b/b.cc", "namespace meshwork {\nclass Piece final : public Base {};\n}\n"};
  EXPECT_THAT(DefinedTwice({first, second}), ElementsAre("meshwork::Piece: a/a.h, b/b.cc"));
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
