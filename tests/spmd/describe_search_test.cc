// What the search weighs, as text: docs/partitioner.md shows one program, here are all kinds.
#include "meshwork/spmd/describe_search.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/ir/text.h"
#include "support/golden.h"

namespace meshwork::describe_search_test {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

TEST(DescribeSearchTest, EndsWithWhatIsFoundForEveryGoldenProgram) {
  for (const char* folder : {"spmd/cases", "spmd/compile", "spmd/sharded_update_cases"}) {
    for (const std::string& file : GoldenFiles(folder)) {
      const std::string golden = ReadGolden(file);
      const Graph graph = ParseGraph(golden.substr(0, golden.find("----\n"))).value();
      const absl::StatusOr<std::string> text = DescribeSearch(graph);
      ASSERT_TRUE(text.ok()) << file << ": " << text.status();
      EXPECT_THAT(*text, AnyOf(HasSubstr("as the search has it.\n"), HasSubstr("more tables"))) << file;
    }
  }
}

TEST(DescribeSearchTest, RefusesWhatCompileRefuses) {
  const Graph graph = ParseGraph(
                          "mesh [x=8]\n"
                          "func f(%x: f32[4096,1024] {x,_}, var %w: f32[1024,1024] {x,_}) {\n"
                          "  %y = matmul %x, %w\n"
                          "  return y=%y }")
                          .value();
  EXPECT_EQ(DescribeSearch(graph).status(), Compile(graph).status());
}

}  // namespace
}  // namespace meshwork::describe_search_test
