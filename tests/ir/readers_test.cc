#include "meshwork/ir/readers.h"

#include <string>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "meshwork/ir/text.h"

namespace meshwork::readers_test {
namespace {

// %a has the number 0, %w 1, %h 2, %s 3, %v 4, %z 5.
constexpr const char* kProgram = R"(mesh []
func step(%a: f32[4],
     var %w: f32[4]) {
  %h = mul %w, %w : f32[4]
  %s = add %h, %a : f32[4]
  %v = reshape %s shape=[2,2] : f32[2,2]
  %z = neg %v : f32[2,2]
  update %w = %s
  return y=%s, %z
}
)";

// The readers of each value: "node.operand …", and the number of exits if there are any.
std::vector<std::string> Texts(const Graph& graph, const Readers& readers) {
  std::vector<std::string> texts;
  for (ValueId id = 0; id < static_cast<ValueId>(graph.values().size()); ++id) {
    texts.emplace_back();
    for (const auto [node, operand] : readers[id]) texts.back() += fmt::format("{}.{} ", node, operand);
    if (readers.exits(id) > 0) texts.back() += fmt::format("+{}", readers.exits(id));
  }
  return texts;
}

TEST(ReadersTest, AreOperandsInTheOrderOfTheProgram) {
  const Graph graph = ParseGraph(kProgram).value();
  const Readers readers = ReadersOf(graph);
  EXPECT_EQ(Texts(graph, readers),
            (std::vector<std::string>{"1.1 ", "0.0 0.1 ", "1.0 ", "2.0 +2", "3.0 ", "+1"}));
}

TEST(ReadersTest, Count) {
  const Readers readers = ReadersOf(ParseGraph(kProgram).value());
  EXPECT_EQ(readers.count(1), 2);
  EXPECT_EQ(readers.count(3), 3);
  EXPECT_EQ(readers.last(1), 0);
  EXPECT_EQ(readers.last(5), -1);
  EXPECT_TRUE(readers.IsReadOnce(2));
  EXPECT_FALSE(readers.IsReadOnce(1)) << "a node reads it twice";
  EXPECT_FALSE(readers.IsReadOnce(3)) << "it leaves";
  EXPECT_FALSE(readers.IsReadOnce(5)) << "nothing reads it";
}

TEST(ReadersTest, OfContentsIncludeThoseOfViews) {
  const Graph graph = ParseGraph(kProgram).value();
  const Readers readers = ReadersOf(graph, std::vector<ValueId>{0, 1, 2, 3, 3, 5});
  EXPECT_EQ(Texts(graph, readers),
            (std::vector<std::string>{"1.1 ", "0.0 0.1 ", "1.0 ", "2.0 3.0 +2", "", "+1"}));
  EXPECT_EQ(readers.last(3), 3);
}

TEST(ReadersTest, OfNothingAreNone) {
  const Graph graph = ParseGraph("mesh []\nfunc step() {\n}\n").value();
  EXPECT_TRUE(Texts(graph, ReadersOf(graph)).empty());
}

}  // namespace
}  // namespace meshwork::readers_test
