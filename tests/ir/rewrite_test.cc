#include "meshwork/ir/rewrite.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/text.h"
#include "meshwork/ops/ops.h"

namespace meshwork::rewrite_test {
namespace {

constexpr const char* kProgram = R"(mesh [x=2]
func step(%a: f32[4] {x},
     var %w: f32[4]) {
  %h = mul %a, %w : f32[4] {x}
  %0 = neg %h : f32[4]
  %1 = add %h, %w : f32[4]
  update %w = %1
  return y=%0, %h
}
)";

TEST(RewriterTest, CopiesEverything) {
  Graph graph = ParseGraph(kProgram).value();
  graph.mutable_node(1).cause = "because";
  Rewriter rewriter(graph);
  for (const Node& node : graph.nodes()) rewriter.Copy(node);
  const Graph copy = std::move(rewriter).Finish();
  EXPECT_EQ(PrintGraph(copy), kProgram);
  EXPECT_EQ(copy.nodes()[1].cause, "because");
  for (size_t i = 0; i < graph.nodes().size(); ++i)
    EXPECT_EQ(copy.Describe(static_cast<int>(i)), graph.Describe(static_cast<int>(i)));
}

TEST(RewriterTest, KeepsInitializers) {
  Graph graph{Mesh()};
  graph.Var("w",
            {{F32, {4}}, [](Graph& g, const Type& type, int64_t, int64_t) { return Constant(g, 7, type); }},
            {UNSHARDED});
  Rewriter rewriter(graph);
  const Graph copy = std::move(rewriter).Finish();
  ASSERT_TRUE(copy.arguments()[0].initializer.has_value());
  Graph start{Mesh()};
  copy.arguments()[0].initializer->build(start, {F32, {4}}, 0, 0);
  EXPECT_EQ(PrintNode(start, 0), "%0 = constant value=7 shape=[4] : f32[4]");
}

TEST(RewriterTest, RedirectsUses) {
  const Graph graph = ParseGraph(kProgram).value();
  Rewriter rewriter(graph);
  for (const Node& node : graph.nodes()) {
    if (node.row->name == "neg") {  // -h becomes h: no node
      rewriter.Set(node.results[0], rewriter.Map(node.operands[0]));
      continue;
    }
    rewriter.Copy(node);
  }
  EXPECT_EQ(PrintGraph(std::move(rewriter).Finish()), R"(mesh [x=2]
func step(%a: f32[4] {x},
     var %w: f32[4]) {
  %h = mul %a, %w : f32[4] {x}
  %0 = add %h, %w : f32[4]
  update %w = %0
  return y=%h, %h
}
)");
}

TEST(RewriterTest, AddsNodesBetweenCopies) {
  const Graph graph = ParseGraph(kProgram).value();
  Rewriter rewriter(graph);
  for (const Node& node : graph.nodes()) {
    rewriter.Copy(node);
    if (node.row->name != "mul") continue;
    const ValueId product = rewriter.Map(node.results[0]);
    const int tanh = rewriter.to().TryAdd(GetOp("tanh"), {{product}}, {}, node.location).value();
    rewriter.Set(node.results[0], rewriter.to().nodes()[tanh].results[0]);
  }
  EXPECT_EQ(PrintGraph(std::move(rewriter).Finish()), R"(mesh [x=2]
func step(%a: f32[4] {x},
     var %w: f32[4]) {
  %h = mul %a, %w : f32[4] {x}
  %0 = tanh %h : f32[4]
  %1 = neg %0 : f32[4]
  %2 = add %0, %w : f32[4]
  update %w = %2
  return y=%1, %0
}
)");
}

}  // namespace
}  // namespace meshwork::rewrite_test
