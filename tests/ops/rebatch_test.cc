#include "ops/rebatch.h"

#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/gradients.h"
#include "ops/ops.h"
#include "ops/text.h"
#include "support/interpreter.h"

namespace meshwork {
namespace {

std::string Rebatched(const char* program, int64_t from, int64_t to) {
  const absl::StatusOr<Graph> graph = Rebatch(ParseGraph(program, "p.mw").value(), from, to);
  return graph.ok() ? PrintGraph(*graph) : std::string(MessageOf(graph.status()));
}

TEST(RebatchTest, FollowsTheBatchThroughEveryShape) {
  constexpr const char* kProgram = R"(mesh [x=2]
func step(%a: f32[8,3] {x,_},
     %labels: i32[8],
     %scale: f32[3],
     var %w: f32[3,5]) {
  %h = matmul %a, %w : f32[8,5] {x,_}
  %0 = constant value=1 shape=[8,1] : f32[8,1]
  %1 = add %h, %0 : f32[8,5]
  %2 = reshape %1 shape=[40] : f32[40]
  %3 = reshape %2 shape=[8,5] : f32[8,5]
  %4 = transpose %3 permutation=[1,0] : f32[5,8]
  %5 = reduce_mean %4 dims=[1] : f32[5]
  %6 = broadcast_to %5 shape=[8,5] dims=[1] : f32[8,5]
  %7 = mul %6, %h : f32[8,5]
  %8 = one_hot %labels depth=5 : f32[8,5]
  %9 = mul %7, %8 : f32[8,5]
  %10 = matmul %a, %9 transpose_a=true : f32[3,5]
  update %w = %10
  return y=%9
}
)";
  constexpr const char* kExpected = R"(mesh [x=2]
func step(%a: f32[12,3] {x,_},
     %labels: i32[12],
     %scale: f32[3],
     var %w: f32[3,5]) {
  %h = matmul %a, %w : f32[12,5] {x,_}
  %0 = constant value=1 shape=[12,1] : f32[12,1]
  %1 = add %h, %0 : f32[12,5]
  %2 = reshape %1 shape=[60] : f32[60]
  %3 = reshape %2 shape=[12,5] : f32[12,5]
  %4 = transpose %3 permutation=[1,0] : f32[5,12]
  %5 = reduce_mean %4 dims=[1] : f32[5]
  %6 = broadcast_to %5 shape=[12,5] dims=[1] : f32[12,5]
  %7 = mul %6, %h : f32[12,5]
  %8 = one_hot %labels depth=5 : f32[12,5]
  %9 = mul %7, %8 : f32[12,5]
  %10 = matmul %a, %9 transpose_a=true : f32[3,5]
  update %w = %10
  return y=%9
}
)";
  EXPECT_EQ(Rebatched(kProgram, 8, 12), kExpected);
  EXPECT_EQ(Rebatched(kProgram, 8, 8), kProgram);
  EXPECT_EQ(Rebatched(kExpected, 12, 8), kProgram);
}

TEST(RebatchTest, LeavesInputsOfOtherSizesAlone) {
  EXPECT_EQ(
      Rebatched("mesh []\nfunc f(%a: f32[8], %b: f32[4], %s: f32[]) { %0 = mul %a, %s return %0, %b }", 8, 0),
      "mesh []\nfunc f(%a: f32[0],\n     %b: f32[4],\n     %s: f32[]) {\n  %0 = mul %a, %s : f32[0]\n"
      "  return %0, %b\n}\n");
}

// A training step: the loss of the mean over the batch, its gradient, an update.
Graph TrainingStep(int64_t rows) {
  Graph g{Mesh()};
  const Value x = g.Input("x", F64, {rows, 2}, {UNSHARDED, UNSHARDED});
  const Value labels = g.Input("labels", I32, {rows}, {UNSHARDED});
  const Variable w = g.Var("w", {{F64, {2, 3}}, nullptr}, {UNSHARDED, UNSHARDED});
  const Value loss = SparseSoftmaxCrossEntropy(Tanh(MatMul(x, w)), labels);
  g.Update(w, w - Gradients(loss, {{w}})[0]);
  g.Output("loss", loss);
  return g;
}

TEST(RebatchTest, ComputesWhatTheProgramOfThatSizeComputes) {
  const Graph four = TrainingStep(4);
  const std::map<std::string, std::vector<double>> feeds = {
      {"x", {1, -2, 0.5, 3, 2, 2}}, {"labels", {2, 0, 1}}, {"w", {0.1, 0.2, 0.3, -0.4, 0.5, 0}}};
  const InterpretedStep got = Interpret(Rebatch(four, 4, 3).value(), feeds),
                        want = Interpret(TrainingStep(3), feeds);
  EXPECT_EQ(got.outputs.at("loss"), want.outputs.at("loss"));
  EXPECT_EQ(got.variables.at("w"), want.variables.at("w"));
}

TEST(RebatchTest, RejectsAVariableTiedToTheBatch) {
  EXPECT_EQ(
      Rebatched(
          "mesh []\nfunc f(%a: f32[8,3], var %seen: f32[5,8]) {\n  %0 = transpose %a permutation=[1,0]\n"
          "  %1 = matmul %seen, %a\n}",
          8, 4),
      "variable \"seen\" is f32[5,8]; its dim 1 is tied to the batch of 8, so the program cannot run with "
      "4.");
  EXPECT_EQ(
      Rebatched("mesh []\nfunc f(%a: f32[8], var %last: f32[8]) {\n  update %last = %a\n}", 8, 4),
      "variable \"last\" is f32[8]; its dim 0 is tied to the batch of 8, so the program cannot run with 4.");
}

TEST(RebatchTest, RejectsAReshapeThatSplitsTheBatch) {
  EXPECT_EQ(Rebatched("mesh []\nfunc f(%a: f32[8,3]) {\n  %0 = reshape %a shape=[2,12]\n}", 8, 4),
            "reshape (p.mw:3): dim 0 of f32[2,12] is tied to the batch of 8, which does not divide it, so "
            "the program "
            "cannot run with 4.");
}

TEST(RebatchTest, RejectsSizesThatMayBeTheBatch) {
  const Graph graph = ParseGraph(R"(
mesh [x=2]
func f(%x: f32[8,4] {x,_}) {
  %ones = constant value=1 shape=[8]
  %n = reduce_sum %ones dims=[0]
  %s = reduce_sum %x dims=[0,1]
  %mean = div %s, %n
  return mean=%mean
})",
                                 "m.mw")
                          .value();
  EXPECT_EQ(
      MessageOf(Rebatch(graph, 8, 4).status()),
      "constant (m.mw:4): dim 0 of f32[8] has the size of the batch and meets no input, so whether it is the "
      "batch cannot be told and the program cannot run with 4; derive it from an input, or take sizes by "
      "dimension_size.");
}

TEST(RebatchTest, RejectsSizesThatAreNone) {
  const char* program = "mesh []\nfunc f(%a: f32[0,3]) {\n}";
  EXPECT_EQ(Rebatched(program, 0, 4),
            "Rebatch: a batch of 0 cannot become one of 4; the first is at least 1, the second at least 0.");
  EXPECT_EQ(Rebatched(program, 4, -1),
            "Rebatch: a batch of 4 cannot become one of -1; the first is at least 1, the second at least 0.");
}

}  // namespace
}  // namespace meshwork
