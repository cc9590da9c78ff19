#include "runtime/local_program.h"

#include "base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/row.h"
#include "ops/text.h"

namespace meshwork {
namespace {

std::string ErrorOf(const Graph& graph) { return std::string(MessageOf(CheckLocalProgram(graph))); }
Graph Parse(std::string_view text) { return ParseGraph(text, "step.mw").value(); }

constexpr std::string_view kGood = R"(mesh [x=2, y=1]
func step(%a: f32[2,3] of f32[4,3] {x,_}, var %w: f32[2,3] of f32[4,3] {x,_}) {
  %n = neg %a : f32[2,3] of f32[4,3] {x,_}
  %p = reduce_sum %n dims=[0] : f32[3] of f32[3] {_ | sum:x}
  update %w = %n
  return n=%n, w=%w
})";

TEST(LocalProgramTest, AcceptsLocalPrograms) { EXPECT_EQ(ErrorOf(Parse(kGood)), ""); }

TEST(LocalProgramTest, LimitsVirtualDevices) {
  EXPECT_EQ(ErrorOf(Graph(Mesh::Parse("a=128,b=64").value())),
            "Executor: mesh [a=128, b=64] has 8192 devices; one process runs at most 4096 virtual ones. "
            "Compile, verify and simulate the program instead, or run it on a smaller mesh.");
}

TEST(LocalProgramTest, RejectsGlobalPrograms) {
  EXPECT_EQ(ErrorOf(Parse("mesh [x=2]\nfunc step(%a: f32[4] {x}) {\n  %b = neg %a\n  return %b\n}")),
            "Executor: %a is f32[4] of f32[4] {x} on [x=2]; a device holds the block that the layout cuts.");
  EXPECT_EQ(ErrorOf(Parse("mesh [x=2]\nfunc step(%a: f32[4] {_}) {\n  %0 = neg %a\n  return %0\n}")),
            "Executor: the result of neg (step.mw:3) has no layout; a local program says where every value "
            "lies, so compile the program first.");
  EXPECT_EQ(ErrorOf(Parse("mesh [x=2]\nfunc step(%a: f32[4] {_}) {\n  %b = relayout %a {_} : f32[4] {_}\n}")),
            "Executor: relayout (step.mw:3) tells the compiler something and runs nowhere; compile the "
            "program first.");
}

TEST(LocalProgramTest, RejectsBlocksOfAnotherShape) {
  Graph graph = Parse(kGood);
  graph.mutable_value(graph.nodes()[0].results[0]).type.shape[0] = 3;
  EXPECT_EQ(ErrorOf(graph),
            "Executor: %n is f32[3,3] of f32[4,3] {x,_} on [x=2, y=1]; a device holds the block that the "
            "layout cuts.");
}

TEST(LocalProgramTest, RejectsReductionsThatTheDTypeHasNot) {
  Graph graph = Parse(kGood);
  ValueInfo& sum = graph.mutable_value(graph.nodes()[1].results[0]);
  sum.layout = sum.layout->WithPartials({{0, ReduceOp::kAnd}});
  EXPECT_EQ(
      ErrorOf(graph),
      "Executor: %p: layout {_ | and:x}: and combines bools, not f32[3]; sum, max, min and prod combine "
      "numbers.");
}

TEST(LocalProgramTest, RejectsOpsWithoutAKernel) {
  static const OpRow row = {.name = "dream"};
  Graph graph = Parse(kGood);
  graph.mutable_node(1).row = &row;
  EXPECT_EQ(ErrorOf(graph), "Executor: dream (step.mw:4) has no CPU kernel; give its row one.");
}

TEST(LocalProgramTest, RejectsPartialArgumentsAndOutputs) {
  Graph graph = Parse(kGood);
  graph.AddOutput({"p", graph.nodes()[1].results[0]});
  EXPECT_EQ(ErrorOf(graph),
            "Executor: output \"p\" is f32[3] {_ | sum:x}; a partial value is not one tensor yet, reduce it "
            "first.");
  EXPECT_EQ(
      ErrorOf(Parse("mesh [x=2]\nfunc step(%a: f32[4] of f32[4] {_ | sum:x}) { }")),
      "Executor: input \"a\" is f32[4] {_ | sum:x}; a partial value is not one tensor yet, reduce it first.");
  EXPECT_EQ(ErrorOf(Parse("mesh [x=2]\nfunc step(var %a: f32[4] of f32[4] {_ | sum:x}) { }")),
            "Executor: variable \"a\" is f32[4] {_ | sum:x}; a partial value is not one tensor yet, reduce "
            "it first.");
}

TEST(LocalProgramTest, RejectsWrongUpdates) {
  Graph twice = Parse(kGood);
  twice.AddUpdate({1, twice.arguments()[0].value});
  EXPECT_EQ(ErrorOf(twice),
            "Executor: update of \"w\": it is already updated; a step writes a variable once.");
  Graph input = Parse(kGood);
  input.AddUpdate({0, input.arguments()[1].value});
  EXPECT_EQ(ErrorOf(input), "Executor: update of \"a\": it is an input; only variables keep values.");
  Graph other = Parse(kGood);
  ValueInfo info = other.value(0);
  info.name = "z";
  info.layout = Layout::Parse(other.mesh(), "{_,x}").value();
  info.type.shape = {4, 2};
  const ValueId z = other.AddArgument(info, true);
  other.AddUpdate({2, other.nodes()[0].results[0]});
  EXPECT_EQ(other.arguments()[2].value, z);
  EXPECT_EQ(ErrorOf(other),
            "Executor: update of \"z\": the variable is f32[4,3] {_,x}, the new value f32[4,3] {x,_}; they "
            "must agree.");
}

TEST(LocalProgramTest, AxesOfSizeOneDoNotMatter) {
  Graph graph = Parse(kGood);
  graph.mutable_value(graph.arguments()[1].value).layout = Layout::Parse(graph.mesh(), "{x,y}").value();
  EXPECT_EQ(ErrorOf(graph), "");
}

TEST(LocalProgramTest, RejectsRepeatedOutputNames) {
  Graph graph = Parse(kGood);
  graph.AddOutput({"n", graph.arguments()[0].value});
  EXPECT_EQ(ErrorOf(graph), "Executor: output \"n\" appears twice; output names must be unique.");
  Graph numbered = Parse(kGood);
  numbered.AddOutput({"3", 0});
  numbered.AddOutput({"", 0});  // is called by its position
  EXPECT_EQ(ErrorOf(numbered), "Executor: output \"3\" appears twice; output names must be unique.");
}

}  // namespace
}  // namespace meshwork
