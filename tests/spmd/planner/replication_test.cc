// Gathers of whole values that are refused. The messages are in tests/errors/replication.txt.
#include "meshwork/spmd/planner/replication.h"

#include <map>
#include <string>
#include <string_view>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/gradients.h"
#include "meshwork/ir/program.h"
#include "meshwork/ir/text.h"
#include "meshwork/ops/ops.h"
#include "meshwork/spmd/compile.h"

namespace meshwork::replication_test {
namespace {

using testing::ElementsAre;

// "" if the program compiles with no unasked gathers allowed, else the message.
std::string Refusal(std::string_view arguments, std::string_view body, int64_t budget = 0) {
  const Graph graph =
      ParseGraph(fmt::format("mesh [x=2, y=2]\nfunc f({}) {{\n{}\n}}", arguments, body)).value();
  return std::string(MessageOf(Compile(graph, {.replication_budget = budget}).status()));
}

TEST(ReplicationTest, IsCountedFromOneByteBeyondTheBudget) {
  constexpr std::string_view kSort = "%0, %s = sort %a dim=0 return %0";
  EXPECT_EQ(Refusal("%a: f32[32] {x}", kSort, 128), "");
  EXPECT_NE(Refusal("%a: f32[32] {x}", kSort, 127), "");
}

TEST(ReplicationTest, IsOfValuesThatLieWholeOnEveryDevice) {
  EXPECT_NE(Refusal("%a: f32[8] {x}", "%0, %s = sort %a dim=0 return %0"), "");
  EXPECT_NE(Refusal("%a: f32[8] {(x,y)}", "%0, %s = sort %a dim=0 return %0"), "");
  // With columns to share, blocks of columns are sorted.
  EXPECT_EQ(Refusal("%a: f32[8,4] {x,_}", "%0, %s = sort %a dim=0 return %0"), "");
  // The value is gathered along x only, and stays sharded along y.
  EXPECT_EQ(Refusal("%a: f32[8,4] {x,y}", "%0, %s = sort %a dim=0 return %0"), "");
  // Blocks are exchanged.
  EXPECT_EQ(Refusal("%a: f32[8,4] {x,_}, %b: f32[8,4] {_,x}", "%0 = add %a, %b return %0"), "");
  // Only indices are sent, but the large matrix is then whole on every device.
  EXPECT_NE(Refusal("%i: i32[8] {x}",
                    "%o = one_hot %i depth=64 %f = reshape %o shape=[512] "
                    "%0, %s = sort %f dim=0 return %0",
                    1024),
            "");
  // A sum is no gather.
  EXPECT_EQ(Refusal("%a: f32[8,4] {_,x}, %b: f32[4,8] {x,_}", "%0 = matmul %a, %b return %0"), "");
}

// Recurrences along a pinned dim need it whole; elementwise ops between them could be whole, too, for fewer gathers.
TEST(ReplicationTest, WhatComesBeforeIsNotGatheredInstead) {
  EXPECT_NE(Refusal("%a: f32[8] {x}",
                    "%t = tanh %a %r = linear_recurrence %t, %a dim=0 : f32[8] {x} "
                    "%u = tanh %r %s = linear_recurrence %u, %r dim=0 : f32[8] {x} return %s"),
            "");
}

// The changes that a message offers compile, written as the message says.
TEST(ReplicationTest, TheWayOutThatIsNamedIsOne) {
  constexpr std::string_view kSort = "%0, %s = sort %a dim=0 : f32[8] {x}, i32[8] return %0";
  const std::string message = Refusal("%a: f32[8] {x}", kSort);
  EXPECT_THAT(message, testing::HasSubstr(
                           "annotate %a `f32[8] {x} gather=allowed` (C++: AllowGather), or relayout it to "
                           "{_} before it is read (C++: Relayout)"));
  EXPECT_EQ(Refusal("%a: f32[8] {x} gather=allowed", kSort), "");
  EXPECT_EQ(
      Refusal("%a: f32[8] {x}", "%b = relayout %a {_} %0, %s = sort %b dim=0 : f32[8] {x}, i32[8] return %0"),
      "");
  // Or the op's result is marked.
  EXPECT_EQ(Refusal("%a: f32[8] {x}", "%0, %s = sort %a dim=0 : f32[8] {x} gather=allowed, i32[8] return %0"),
            "");
  for (const int way : {0, 1, 2}) {
    Graph g(Mesh::Parse("x=2").value());
    Value x = g.Input("x", F32, {8}, {"x"});
    if (way == 1) AllowGather(x);
    if (way == 2) x = Relayout(x, {UNSHARDED});
    g.Output("sorted", WithLayout(Sort(x, 0).values, {"x"}));
    EXPECT_EQ(Compile(g, {.replication_budget = 0}).ok(), way != 0);
  }
}

TEST(ReplicationTest, IsNotWhatTheUserAsksFor) {
  EXPECT_EQ(Refusal("%a: f32[8,4] {x,_}", "%0 = relayout %a {_,_} %1, %s = sort %0 dim=0 return %1"), "");
  EXPECT_EQ(Refusal("%a: f32[8,4] {x,_}", "%0 = exp %a : f32[8,4] {_,_} return %0"), "");
  EXPECT_EQ(Refusal("%a: f32[8,4] {x,_}", "%0 = reverse %a dims=[0] : f32[8,4] {_,_} return %0"), "");
  EXPECT_EQ(Refusal("%a: f32[8,4] {x,_} gather=allowed", "%0, %s = sort %a dim=0 return %0"), "");
  EXPECT_EQ(
      Refusal("%a: f32[8,4] {x,_}", "%0 = exp %a : f32[8,4] gather=allowed %1, %s = sort %0 dim=0 return %1"),
      "");
  EXPECT_EQ(Refusal("%a: f32[8,4] {x,_}, var %w: f32[8,4] {_,_}", "%0 = exp %a update %w = %0"), "");
  EXPECT_EQ(Refusal("var %w: f32[8,4] {x,_} gather=on_use", "%0, %s = sort %w dim=0 return %0"), "");
}

// A result that is pinned whole permits a gather only if it is as large as the gathered operand.
TEST(ReplicationTest, ASmallResultDoesNotAskForALargeOperand) {
  EXPECT_NE(
      Refusal("%a: f32[8,1] {x,_}", "%0, %1 = top_k %a dim=0 k=2 : f32[2,1] {_,_}, i32[2,1] {_,_} return %0"),
      "");
}

// The gradient of a weight: both operands are sharded by rows. Gathering the small ones sends least; where
// that is refused, the op runs on blocks as they lie, and reduces into blocks.
TEST(ReplicationTest, OperandsThatAgreeStayWhereGatheringThemIsRefused) {
  const Graph graph = ParseGraph(R"(mesh [x=4]
func f(%h: f32[8,64] {x,_}, %d: f32[8,64] {x,_}, var %w: f32[64,64] {x,_}) {
  %g = matmul %h, %d transpose_a=true
  update %w = %g
})")
                          .value();
  auto counts = [&](int64_t budget) {
    std::map<std::string, int64_t> counts;
    const Program program = Compile(graph, {.replication_budget = budget}).value();
    for (const CollectiveSummary& s : SummarizeCollectives(program.body)) counts[s.type] += s.count;
    return counts;
  };
  EXPECT_THAT(counts(1 << 20), ElementsAre(std::pair("all_gather", 1), std::pair("all_to_all", 1)));
  EXPECT_THAT(counts(0), ElementsAre(std::pair("reduce_scatter", 1)));
}

// A batch sharded by rows, a weight sharded by columns: the larger would stay sharded, but the weight must.
TEST(ReplicationTest, AnActivationIsGatheredForAWeightThatMustNotBe) {
  constexpr std::string_view kArguments = "%x: f32[64,8] {x,_}, var %w: f32[8,8] {_,x}";
  auto moves = [&](std::string_view body, int64_t budget) {
    const Graph graph =
        ParseGraph(fmt::format("mesh [x=2, y=2]\nfunc f({}) {{\n{}\n}}", kArguments, body)).value();
    std::map<std::string, int64_t> bytes;
    const Program program = Compile(graph, {.replication_budget = budget}).value();
    for (const CollectiveSummary& s : SummarizeCollectives(program.body)) bytes[s.type] += s.bytes;
    return bytes;
  };
  constexpr std::string_view kOpen = "%h = matmul %x, %w return %h";
  EXPECT_THAT(moves(kOpen, 1 << 20), ElementsAre(std::pair("all_gather", 128)));
  EXPECT_THAT(moves(kOpen, 0), ElementsAre(std::pair("all_gather", 1024)));
  // The user wants the rows of the result: it comes by columns.
  constexpr std::string_view kRows = "%h = matmul %x, %w : f32[64,8] {x,_} return %h";
  EXPECT_THAT(moves(kRows, 0), ElementsAre(std::pair("all_gather", 1024), std::pair("all_to_all", 512)));
}

// A weight that is sharded along k as the batch is by rows does not permit a gather: its columns say nothing
// about the result.
TEST(ReplicationTest, AnActivationIsNotGatheredToBeSummedOver) {
  EXPECT_NE(Refusal("%x: f32[64,8] {x,_}, var %w: f32[8,8] {x,_}", "%h = matmul %x, %w return %h"), "");
}

TEST(ReplicationTest, GradientsOfWhatMayBeGatheredCompile) {
  auto compile = [](bool allowed) {
    Graph g(Mesh::Parse("x=2").value());
    const Value x = g.Input("x", F32, {6, 3}, {"x", UNSHARDED});
    const Value h = Exp(x);
    if (allowed) AllowGather(h);
    // A block of three rows is no block of [3,6]. The gradient comes cut along x.
    const Value loss = ReduceSum(Reshape(Exp(Reshape(h, {3, 6})), {6, 3}) * h, {0, 1});
    g.Output("dx", Gradients(loss, {x})[0]);
    return Compile(g, {.replication_budget = 0}).ok();
  };
  EXPECT_FALSE(compile(false));
  EXPECT_TRUE(compile(true));
}

// On a mesh without an axis for the batch, all activations lie whole, so one within a layer may, too. With
// such an axis, none may.
TEST(ReplicationTest, AnActivationMayLieAsOthersOfItsShapeDo) {
  // Three devices shard the 12 channels, but cannot evenly shard their four groups.
  const auto compile = [](const std::string& mesh, const std::string& input) {
    const std::string text = fmt::format(
        "mesh [{0}]\n"
        "func f(%x: f32[8,12] {1}, var %w: f32[12,12] {{_,model}}) {{\n"
        "  %a = tanh %x\n"
        "  %h = matmul %a, %w\n"
        "  %g = reshape %h shape=[8,4,3]\n"
        "  %s, %i = sort %g dim=2\n"
        "  return s=%s }}",
        mesh, input);
    return Compile(ParseGraph(text).value(), {.replication_budget = 0});
  };
  const absl::StatusOr<Program> whole = compile("model=3", "{_,_}");
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_THAT(whole->decisions, testing::Contains(testing::AllOf(
                                    testing::HasSubstr("is gathered whole on every device, 384 B, as %"),
                                    testing::HasSubstr("lies whole anyway"))));
  const absl::StatusOr<Program> cut = compile("batch=2, model=3", "{batch,_}");
  ASSERT_TRUE(cut.ok()) << cut.status();
  EXPECT_THAT(cut->decisions, testing::Not(testing::Contains(testing::HasSubstr("lies whole anyway"))));
}

// Gradients with the shape of a variable, and results of another refused gather, do not permit it either.
TEST(ReplicationTest, GradientsAndOtherGathersAreNoExample) {
  EXPECT_NE(Refusal("%a: f32[8,8] {x,_}, %b: f32[8,8] {_,_}, var %w: f32[8,8] {_,_}",
                    "%e = exp %a %r = reshape %e shape=[64] %0, %s = sort %r dim=0 return %0, %b"),
            "");
  EXPECT_NE(Refusal("%a: f32[8] {x}, %b: f32[8] {x}",
                    "%0, %s = sort %a dim=0 %1, %t = sort %b dim=0 return %0, %1"),
            "");
  EXPECT_EQ(Refusal("%a: f32[8] {x}, %b: f32[8] {_}", "%e = exp %b %0, %s = sort %a dim=0 return %0, %e"),
            "");
}

// The search for other layouts is bounded, however many there are.
TEST(ReplicationTest, LooksForAWayOutAmongManyLayouts) {
  const Graph graph = ParseGraph(R"(mesh [a=2, b=2, c=2, d=2]
func f(%x: f32[16,1,1,1] {(a,b,c,d),_,_,_}) {
  %0, %s = sort %x dim=0
  return %0
})")
                          .value();
  const std::string message(MessageOf(Compile(graph, {.replication_budget = 0}).status()));
  EXPECT_THAT(message, testing::HasSubstr("Cheapest without it: "));
}

}  // namespace
}  // namespace meshwork::replication_test
