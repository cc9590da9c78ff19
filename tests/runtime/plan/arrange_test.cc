#include "meshwork/runtime/plan/arrange.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/ir/rewrite.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/text.h"
#include "meshwork/runtime/plan/local_program.h"
#include "runtime/plan/programs.h"
#include "runtime/plan/random_program.h"

namespace meshwork::arrange_test {
namespace {

using ::testing::ElementsAre;

// The names of the first results, in order.
std::vector<std::string> OrderOf(const Graph& graph) {
  std::vector<std::string> order;
  for (const Node& node : graph.nodes()) order.push_back(graph.value(node.results[0]).name);
  return order;
}
std::vector<std::string> ArrangedOrder(std::string_view arguments, std::string_view body) {
  const std::string text = fmt::format("mesh [x=2]\nfunc step({}) {{\n{}}}\n", arguments, body);
  return OrderOf(Arrange(ParseProgram(absl::StrReplaceAll(text, {{"f32[128]", "f32[128] {_}"},
                                                                 {"f32[16,16]", "f32[16,16] {_,_}"},
                                                                 {"f32[]", "f32[] {}"}}))
                             .body));
}

constexpr std::string_view kFour = "var %a: f32[128], var %b: f32[128], %i: f32[128], %j: f32[128]";

// The example in the header.
TEST(ArrangeTest, UpdatesStandBehindTheirGradients) {
  const auto text = [](std::string_view body) {
    return fmt::format(R"(mesh [x=2]
func step(%x: f32[2,3] of f32[4,3] {{x,_}}, %d: f32[2,5] of f32[4,5] {{x,_}}, %e: f32[2,7] of f32[4,7] {{x,_}},
          var %w: f32[3,5] {{_,_}}, var %u: f32[3,7] {{_,_}}) {{{}
  update %w = %w1
  update %u = %u1
}})",
                       body);
  };
  EXPECT_EQ(PrintGraph(Arrange(ParseProgram(text(R"(
  %g = matmul %x, %d transpose_a=true : f32[3,5] {_,_ | sum:x}
  %h = matmul %x, %e transpose_a=true : f32[3,7] {_,_ | sum:x}
  %G, %H = all_reduce %g, %h axes=(x) op=sum : f32[3,5] {_,_}, f32[3,7] {_,_}
  %w1 = sub %w, %G : f32[3,5] {_,_}
  %u1 = sub %u, %H : f32[3,7] {_,_})"))
                                   .body)),
            PrintGraph(ParseProgram(text(R"(
  %g = matmul %x, %d transpose_a=true : f32[3,5] {_,_ | sum:x}
  %G = all_reduce %g axes=(x) op=sum : f32[3,5] {_,_}
  %w1 = sub %w, %G : f32[3,5] {_,_}
  %h = matmul %x, %e transpose_a=true : f32[3,7] {_,_ | sum:x}
  %H = all_reduce %h axes=(x) op=sum : f32[3,7] {_,_}
  %u1 = sub %u, %H : f32[3,7] {_,_})"))
                           .body));
}

// The compiler gives a reason for each value of an all_reduce of several values.
TEST(ArrangeTest, EveryPartOfACollectiveHasItsOwnCause) {
  const Graph local = ParseProgram(R"(mesh [x=2]
func step(%g: f32[3] {_ | sum:x}, %h: f32[5] {_ | sum:x}) {
  %G, %H = all_reduce %g, %h axes=(x) op=sum : f32[3] {_}, f32[5] {_}
  return g=%G, h=%H
})")
                          .body;
  const auto causes = [&](std::string_view cause) {
    Rewriter rewriter(local);
    Node node = local.nodes()[0];
    node.cause = cause;
    rewriter.Copy(node);
    const Graph arranged = Arrange(std::move(rewriter).Finish());
    std::vector<std::string> each;
    for (const Node& part : arranged.nodes()) each.push_back(part.cause);
    return each;
  };
  EXPECT_THAT(causes("g is a sum; h is one, too"), ElementsAre("g is a sum", "h is one, too"));
  EXPECT_THAT(causes("both are sums"), ElementsAre("both are sums", "both are sums"));
  EXPECT_THAT(causes(""), ElementsAre("", ""));
}

TEST(ArrangeTest, EveryPieceIsThereOnceAndInTheSameOrderEachTime) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    const DrawnProgram program = ProgramDraw(random).Make();
    const Graph local = ParseProgram(program.text).body;
    const Graph arranged = Arrange(local);
    EXPECT_EQ(PrintGraph(arranged), PrintGraph(Arrange(local))) << program.text;
    EXPECT_EQ(MessageOf(CheckLocalProgram(arranged)), "") << program.text;
    size_t pieces = 0;
    for (const Node& node : local.nodes())
      pieces += node.row->kind == OpKind::kCollective ? node.results.size() : 1;
    EXPECT_EQ(arranged.nodes().size(), pieces) << program.text;
    for (const Node& node : arranged.nodes()) {
      if (node.row->kind != OpKind::kCollective) continue;
      EXPECT_EQ(node.results.size(), 1u) << program.text;
    }
  }
}

// Run without groups and without coalescing, so that the executor does not call Arrange.
TEST(ArrangeTest, KeepsEveryValue) {
  std::mt19937 random(6);
  for (int round = 0; round < 100; ++round) {
    const DrawnProgram program = ProgramDraw(random).Make();
    SCOPED_TRACE(program.text);
    const Graph local = ParseProgram(program.text).body;
    for (const Graph& graph : {local, Arrange(local)}) {
      const RunResult run = RunProgram({.body = graph}, program.feeds, program.initial,
                                       {.workers = 2, .coalesce = false, .fuse = false});
      ExpectEqualValues(run.outputs, program.outputs);
      ExpectEqualValues(run.variables, program.variables);
    }
  }
}

TEST(ArrangeTest, TheOnlyReaderOfAValueFollowsIt) {
  EXPECT_THAT(ArrangedOrder(kFour,
                            "%p = neg %i : f32[128]\n %q = neg %j : f32[128]\n %r = exp %p : f32[128]\n"
                            "%s = exp %q : f32[128]\n %t = add %r, %s : f32[128]\n return y=%t\n"),
              ElementsAre("p", "r", "q", "s", "t"));
}

TEST(ArrangeTest, TwoReadersOfAValueStayWhereTheyAre) {
  EXPECT_THAT(ArrangedOrder(kFour,
                            "%p = neg %i : f32[128]\n %q = neg %j : f32[128]\n %r = exp %p : f32[128]\n"
                            "%s = add %p, %j : f32[128]\n return y=%r, z=%s, q=%q\n"),
              ElementsAre("p", "q", "r", "s"));
}

// The other operands of the reader move with it if only the reader uses them, or if they are small.
TEST(ArrangeTest, OperandsOfTheReaderMoveWithIt) {
  EXPECT_THAT(ArrangedOrder(kFour,
                            "%p = neg %i : f32[128]\n %q = neg %j : f32[128]\n %k = exp %j : f32[128]\n"
                            "%r = sub %p, %k : f32[128]\n return y=%r, q=%q\n"),
              ElementsAre("p", "k", "r", "q"));
  EXPECT_THAT(
      ArrangedOrder(kFour,
                    "%p = neg %i : f32[128]\n %q = neg %j : f32[128]\n %k = exp %j : f32[128]\n"
                    "%l = neg %k : f32[128]\n %r = sub %p, %k : f32[128]\n return y=%r, q=%q, l=%l\n"),
      ElementsAre("p", "q", "k", "l", "r"))
      << "k is for others, too";
  EXPECT_THAT(ArrangedOrder("%i: f32[128], %s: f32[]",
                            "%p = neg %i : f32[128]\n %q = neg %i : f32[128]\n %k = exp %s : f32[]\n"
                            "%l = neg %k : f32[]\n %r = sub %p, %k : f32[128]\n return y=%r, q=%q, l=%l\n"),
              ElementsAre("p", "k", "r", "q", "l"))
      << "k is small";
}

TEST(ArrangeTest, ProductsStayWhereTheyAre) {
  EXPECT_THAT(ArrangedOrder("%i: f32[16,16], %j: f32[16,16]",
                            "%p = neg %i : f32[16,16]\n %q = neg %j : f32[16,16]\n"
                            "%r = matmul %p, %j : f32[16,16]\n return y=%r, q=%q\n"),
              ElementsAre("p", "q", "r"));
  EXPECT_THAT(ArrangedOrder("%i: f32[16,16], %j: f32[16,16]",
                            "%p = neg %i : f32[16,16]\n %s = exp %j : f32[16,16]\n"
                            "%q = matmul %i, %j : f32[16,16]\n %r = sub %p, %q : f32[16,16]\n"
                            "return y=%r, s=%s\n"),
              ElementsAre("p", "s", "q", "r"))
      << "nor are they moved for others";
}

// A new value before the readers of the old one would require a copy of the old value.
TEST(ArrangeTest, NewValuesStayBehindTheReadersOfTheOldOne) {
  EXPECT_THAT(ArrangedOrder(kFour,
                            "%p = neg %i : f32[128]\n %q = mul %a, %j : f32[128]\n"
                            "%n = sub %a, %p : f32[128]\n update %a = %n\n return q=%q\n"),
              ElementsAre("p", "q", "n"));
  EXPECT_THAT(ArrangedOrder(kFour,
                            "%p = neg %i : f32[128]\n %q = mul %b, %j : f32[128]\n"
                            "%n = sub %a, %p : f32[128]\n update %a = %n\n return q=%q\n"),
              ElementsAre("p", "n", "q"))
      << "q reads another variable";
  for (std::string_view updates : {"update %a = %n\n update %b = %n\n", "update %b = %n\n update %a = %n\n"})
    EXPECT_THAT(ArrangedOrder(kFour, fmt::format("%p = neg %i : f32[128]\n %q = mul %a, %j : f32[128]\n"
                                                 "%n = exp %p : f32[128]\n {} return q=%q\n",
                                                 updates)),
                ElementsAre("p", "q", "n"))
        << "of all variables that get it";
}

// ---- Long programs.

// A program with an argument i, to which tests add ops.
class LongProgram {
 public:
  LongProgram() : graph_(Mesh()) { input_ = AddInput("i"); }

  ValueId AddInput(std::string name) {
    return graph_.AddArgument(
        {.name = std::move(name), .type = kType, .global = kType, .layout = Layout::Replicated(Mesh(), 1)},
        /*is_variable=*/false);
  }
  ValueId Add(std::string_view op, std::vector<ValueId> operands) {
    Node node{.row = &GetOp(op)};
    node.operands.assign(operands.begin(), operands.end());
    const int n = graph_.AddNode(std::move(node),
                                 {{.type = kType, .global = kType, .layout = Layout::Replicated(Mesh(), 1)}});
    return graph_.nodes()[n].results[0];
  }
  ValueId input() const { return input_; }
  Graph& graph() { return graph_; }

 private:
  const Type kType{F32, {128}};
  Graph graph_;
  ValueId input_;
};

constexpr int kMany = 100'000;

std::vector<std::string_view> OpsOf(const Graph& graph) {
  std::vector<std::string_view> ops;
  for (const Node& node : graph.nodes()) ops.push_back(node.row->name);
  return ops;
}

TEST(ArrangeTest, AChainMayBeLong) {
  LongProgram program;
  ValueId last = program.input();
  for (int i = 0; i < kMany; ++i) last = program.Add(i % 2 == 0 ? "neg" : "exp", {last});
  program.graph().AddOutput({"y", last});
  EXPECT_EQ(OpsOf(Arrange(program.graph())), OpsOf(program.graph()));
}

// Each of many values is read together with the end of a chain that is not yet computed and too long to move.
TEST(ArrangeTest, AChainThatManyValuesWaitForMayBeLong) {
  LongProgram program;
  std::vector<ValueId> waiting;
  for (int i = 0; i < kMany; ++i) waiting.push_back(program.Add("neg", {program.input()}));
  ValueId last = program.input();
  for (int i = 0; i < kMany; ++i) last = program.Add("sub", {last, waiting[i]});
  program.graph().AddOutput({"y", last});
  // The first sub can follow the first neg immediately, the second sub the second neg, and so on.
  std::vector<std::string_view> expected;
  for (int i = 0; i < kMany; ++i) expected.insert(expected.end(), {"neg", "sub"});
  EXPECT_EQ(OpsOf(Arrange(program.graph())), expected);

  LongProgram backwards;
  waiting.clear();
  for (int i = 0; i < kMany; ++i) waiting.push_back(backwards.Add("neg", {backwards.input()}));
  last = backwards.input();
  for (int i = kMany; i-- > 0;) last = backwards.Add("sub", {last, waiting[i]});
  backwards.graph().AddOutput({"y", last});
  const std::vector<std::string_view> ops = OpsOf(Arrange(backwards.graph()));
  EXPECT_EQ(std::count(ops.begin(), ops.end(), "sub"), kMany);
  // Only the last few of the values that the first sub waits for are near enough.
  EXPECT_EQ(ops.front(), "neg");
  EXPECT_EQ(ops[kMany / 2], "neg");
}

}  // namespace
}  // namespace meshwork::arrange_test
