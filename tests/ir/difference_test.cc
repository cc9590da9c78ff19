#include "meshwork/ir/difference.h"

#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "meshwork/ir/attrs.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/text.h"

namespace meshwork::difference_test {
namespace {

constexpr std::string_view kProgram = R"(mesh [x=2]
func f(%a: f32[4] {x},
     var %v: f32[4]) {
  %h = mul %a, %v : f32[4]
  %0 = reduce_sum %h dims=[0] : f32[] {}
  %1 = sub %h, %0 : f32[4]
  update %v = %1
  return y=%1, z=%0
}
)";

// Difference of kProgram and the same text with `from` replaced by `to`.
std::string After(std::string_view from, std::string_view to) {
  std::string text(kProgram);
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  return FirstDifference(ParseGraph(kProgram).value(), ParseGraph(text).value());
}

TEST(DifferenceTest, NamesTheFirstOne) {
  EXPECT_EQ(After("x=2", "x=4"), "the mesh: [x=2], not [x=4]");
  EXPECT_EQ(After("func f", "func g"), "the name: f, not g");
  EXPECT_EQ(After("(", "(%b: f32[], "), "the number of arguments: 2, not 3");
  EXPECT_EQ(After("%a: f32[4] {x}", "%a: f32[4]"), "argument 0: the layout: {x}, not none");
  EXPECT_EQ(After("%a: f32[4] {x}", "%a: f32[4] {_}"), "argument 0: the layout: {x}, not {_}");
  EXPECT_EQ(After("%a: f32[4] {x}", "var %a: f32[4] {x}"), "argument 0 is a variable: false, not true");
  EXPECT_EQ(After("reduce_sum", "reduce_max"), "node 1 (reduce_sum): the op: reduce_sum, not reduce_max");
  EXPECT_EQ(After("mul %a, %v", "mul %a, %a"), "node 0 (mul): operand 1: %v, not %a");
  EXPECT_EQ(After("sub %h, %0", "sub %h, %h"), "node 2 (sub): operand 1: result 0 of node 1, not %h");
  EXPECT_EQ(After("reduce_sum %h dims=[0] : f32[] {}", "reduce_sum %h dims=[] : f32[4]"),
            "node 1 (reduce_sum): attribute \"dims\": [0], not []");
  EXPECT_EQ(After("{}\n", "{}\n  %2 = neg %h\n"), "node 2 (sub): the op: sub, not neg");
  EXPECT_EQ(After("  update", "  %2 = neg %h\n  update"), "the number of nodes: 3, not 4");
  EXPECT_EQ(After("update %v = %1", ""), "the number of updates: 1, not 0");
  EXPECT_EQ(After("update %v = %1", "update %v = %h"), "update 0: the new value: result 0 of node 2, not %h");
  EXPECT_EQ(After(", z=%0", ""), "the number of outputs: 2, not 1");
  EXPECT_EQ(After("z=%0", "%0"), "output 1: the name: z, not ");
  EXPECT_EQ(After("z=%0", "z=%h"), "output 1: the value: result 0 of node 1, not %h");
}

TEST(DifferenceTest, ComparesBlocksAndLayouts) {
  auto local = [](std::string_view block, std::string_view global, std::string_view layout) {
    return ParseGraph(fmt::format("mesh [x=2, y=1] func f(%a: {} of {} {}) {{ }}", block, global, layout))
        .value();
  };
  const Graph g = local("f32[2]", "f32[4]", "{x}");
  EXPECT_EQ(FirstDifference(g, local("f32[2]", "f32[3]", "{x}")),
            "argument 0: the global type: f32[4], not f32[3]");
  EXPECT_EQ(FirstDifference(g, local("f32[1]", "f32[1]", "{x}")), "argument 0: the type: f32[2], not f32[1]");
  EXPECT_EQ(FirstDifference(g, local("f32[2]", "f32[4]", "{(x,y)}")),
            "argument 0: the layout: {x}, not {(x,y)}");
}

TEST(DifferenceTest, ComparesGivenNamesOnly) {
  EXPECT_EQ(After("%1 = sub %h, %0 : f32[4]\n  update %v = %1\n  return y=%1",
                  "%9 = sub %h, %0 : f32[4]\n  update %v = %9\n  return y=%9"),
            "");
  EXPECT_EQ(After("%1 = sub %h, %0 : f32[4]\n  update %v = %1\n  return y=%1",
                  "%d = sub %h, %0 : f32[4]\n  update %v = %d\n  return y=%d"),
            "node 2 (sub): result 0: the name: , not d");
}

TEST(DifferenceTest, LeavesOutWhatTextsDoNotCarry) {
  Graph g = ParseGraph(kProgram, "a.mw").value();
  g.mutable_node(0).cause = "someone asked";
  EXPECT_EQ(FirstDifference(g, ParseGraph("\n" + std::string(kProgram), "b.mw").value()), "");
}

// Arguments that are added after nodes have later ids than they have in a text.
TEST(DifferenceTest, DoesNotCountIds) {
  Graph g(Mesh::Parse("").value());
  g.name = "f";
  const ValueId a = g.AddArgument({.name = "a", .type = {F32, {4}}, .global = {F32, {4}}}, false);
  const int node = g.TryAdd(GetOp("neg"), std::vector<ValueId>{a}, {}, {}).value();
  const ValueId b = g.AddArgument({.name = "b", .type = {F32, {4}}, .global = {F32, {4}}}, false);
  g.TryAdd(GetOp("add"), std::vector<ValueId>{g.nodes()[node].results[0], b}, {}, {}).value();
  EXPECT_EQ(
      FirstDifference(
          g, ParseGraph("mesh [] func f(%a: f32[4], %b: f32[4]) { %0 = neg %a %1 = add %0, %b }").value()),
      "");
  EXPECT_EQ(
      FirstDifference(
          g, ParseGraph("mesh [] func f(%a: f32[4], %b: f32[4]) { %0 = neg %b %1 = add %0, %b }").value()),
      "node 0 (neg): operand 0: %a, not %b");
}

// -0 is not 0. Texts write all NaN alike, so all NaN in attributes are equal.
TEST(DifferenceTest, ComparesRealsBitByBit) {
  const auto with = [](double value) {
    Graph g(Mesh::Parse("").value());
    g.TryAdd(GetOp("constant"), {}, {{"value", value}, {"shape", std::vector<int64_t>{}}}, {}).value();
    return g;
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(FirstDifference(with(0.0), with(-0.0)), "node 0 (constant): attribute \"value\": 0, not -0");
  EXPECT_EQ(FirstDifference(with(nan), with(-nan)), "");
  Graph other = with(nan);
  other.mutable_node(0).attrs.Set("value", -nan);
  EXPECT_NE(FirstDifference(with(nan), other), "");
}

TEST(SameAttrTest, ComparesNumbersBitByBit) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(SameAttr(nan, nan));
  EXPECT_TRUE(SameAttr(-0.0, -0.0));
  EXPECT_FALSE(SameAttr(0.0, -0.0));
  EXPECT_FALSE(SameAttr(0.0, nan));
  EXPECT_FALSE(SameAttr(nan, -nan));
  EXPECT_FALSE(SameAttr(1.0, int64_t{1}));
  EXPECT_TRUE(SameAttr(std::vector<int64_t>{1, 2}, std::vector<int64_t>{1, 2}));
  EXPECT_FALSE(SameAttr(std::vector<int64_t>{1, 2}, AxisList{1, 2}));
}

}  // namespace
}  // namespace meshwork::difference_test
