#include "meshwork/ops/control/rebatch.h"

#include <map>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/gradients.h"
#include "meshwork/ir/text.h"
#include "meshwork/ops/ops.h"
#include "support/interpreter.h"

namespace meshwork::rebatch_test {
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

TEST(RebatchTest, FollowsTheBatchThroughSlicesAndLookups) {
  constexpr const char* kProgram = R"(mesh [x=2]
func step(%a: f32[8,6] {x,_},
     %ids: i32[8],
     var %table: f32[5,6]) {
  %0 = slice %a start=[0,2] limit=[8,5] : f32[8,3]
  %1 = pad %0 low=[0,1] high=[0,2] : f32[8,6]
  %2 = pad %1 low=[1,0] high=[0,0] : f32[9,6]
  %3 = concat %1, %a dim=1 : f32[8,12]
  %4 = reverse %3 dims=[0] : f32[8,12]
  %5 = gather %table, %ids dim=0 : f32[8,6]
  %6 = scatter_add %5, %ids shape=[5,6] dim=0 : f32[5,6]
  %7 = scatter_add %1, %ids shape=[8,6] dim=0 : f32[8,6]
  %8 = add %7, %a : f32[8,6]
  %9 = expand_dims %8 dims=[0] : f32[1,8,6]
  %10 = squeeze %9 dims=[0] : f32[8,6]
  update %table = %6
  return y=%4, z=%10
}
)";
  constexpr const char* kExpected = R"(mesh [x=2]
func step(%a: f32[12,6] {x,_},
     %ids: i32[12],
     var %table: f32[5,6]) {
  %0 = slice %a start=[0,2] limit=[12,5] : f32[12,3]
  %1 = pad %0 low=[0,1] high=[0,2] : f32[12,6]
  %2 = pad %1 low=[1,0] high=[0,0] : f32[13,6]
  %3 = concat %1, %a dim=1 : f32[12,12]
  %4 = reverse %3 dims=[0] : f32[12,12]
  %5 = gather %table, %ids dim=0 : f32[12,6]
  %6 = scatter_add %5, %ids shape=[5,6] dim=0 : f32[5,6]
  %7 = scatter_add %1, %ids shape=[12,6] dim=0 : f32[12,6]
  %8 = add %7, %a : f32[12,6]
  %9 = expand_dims %8 dims=[0] : f32[1,12,6]
  %10 = squeeze %9 dims=[0] : f32[12,6]
  update %table = %6
  return y=%4, z=%10
}
)";
  EXPECT_EQ(Rebatched(kProgram, 8, 12), kExpected);
  EXPECT_EQ(Rebatched(kExpected, 12, 8), kProgram);
}

// Rows that are joined to the batch do not belong to it, whatever their number.
TEST(RebatchTest, WhatIsJoinedToTheBatchKeepsItsSize) {
  constexpr const char* kProgram = R"(mesh []
func step(%a: f32[8,3],
     %other: f32[16,3],
     var %w: f32[8,3]) {
  %0 = constant value=1 shape=[5,3] : f32[5,3]
  %1 = concat %a, %0, %w dim=0 : f32[21,3]
  %2 = iota dim=0 shape=[21,1] : f32[21,1]
  %3 = mul %1, %2 : f32[21,3]
  %4 = reshape %3 shape=[63] : f32[63]
  %5 = pad %4 low=[2] high=[0] : f32[65]
  %6 = constant value=2 shape=[65] : f32[65]
  %7 = add %6, %5 : f32[65]
  %8 = reshape %a shape=[4,6] : f32[4,6]
  %9 = reshape %other shape=[8,6] : f32[8,6]
  return %7, %8, %9
}
)";
  constexpr const char* kExpected = R"(mesh []
func step(%a: f32[6,3],
     %other: f32[16,3],
     var %w: f32[8,3]) {
  %0 = constant value=1 shape=[5,3] : f32[5,3]
  %1 = concat %a, %0, %w dim=0 : f32[19,3]
  %2 = iota dim=0 shape=[19,1] : f32[19,1]
  %3 = mul %1, %2 : f32[19,3]
  %4 = reshape %3 shape=[57] : f32[57]
  %5 = pad %4 low=[2] high=[0] : f32[59]
  %6 = constant value=2 shape=[59] : f32[59]
  %7 = add %6, %5 : f32[59]
  %8 = reshape %a shape=[3,6] : f32[3,6]
  %9 = reshape %other shape=[8,6] : f32[8,6]
  return %7, %8, %9
}
)";
  EXPECT_EQ(Rebatched(kProgram, 8, 6), kExpected);
  EXPECT_EQ(Rebatched(kProgram, 8, 8), kProgram);
}

// Heads, groups and blocks whose number equals the batch's rows.
TEST(RebatchTest, WhatDimsAreSplitIntoIsNoBatch) {
  constexpr const char* kProgram = R"(mesh []
func f(%a: f32[{0},3,16],
     %b: f32[{0},24]) {{
  %0 = reshape %a shape=[{0},3,2,8] : f32[{0},3,2,8]
  %1 = transpose %0 permutation=[0,2,3,1] : f32[{0},2,8,3]
  %2 = reshape %1 shape=[{0},16,3] : f32[{0},16,3]
  %3 = reshape %b shape=[{0},3,1,8] : f32[{0},3,1,8]
  %4 = reshape %a shape=[{0},6,8] : f32[{0},6,8]
  %5 = reshape %a shape=[{0},1,8,6] : f32[{0},1,8,6]
  return heads=%2, groups=%3, blocks=%4, first=%5
}}
)";
  const std::string of_eight = fmt::format(kProgram, 8);
  for (const int64_t rows : {1, 4, 7, 12, 16})
    EXPECT_EQ(Rebatched(of_eight.c_str(), 8, rows), fmt::format(kProgram, rows));
}

TEST(RebatchTest, InputsThatMeetTheBatchGrowAlike) {
  EXPECT_EQ(Rebatched("mesh []\nfunc f(%a: f32[8,2], %b: f32[16]) { %0 = reshape %b shape=[8,2] %1 = add %0, "
                      "%a return %1 }",
                      8, 6),
            "mesh []\nfunc f(%a: f32[6,2],\n     %b: f32[12]) {\n  %0 = reshape %b shape=[6,2] : f32[6,2]\n"
            "  %1 = add %0, %a : f32[6,2]\n  return %1\n}\n");
}

TEST(RebatchTest, LeavesInputsOfOtherSizesAlone) {
  EXPECT_EQ(
      Rebatched("mesh []\nfunc f(%a: f32[8], %b: f32[4], %s: f32[]) { %0 = mul %a, %s return %0, %b }", 8, 0),
      "mesh []\nfunc f(%a: f32[0],\n     %b: f32[4],\n     %s: f32[]) {\n  %0 = mul %a, %s : f32[0]\n"
      "  return %0, %b\n}\n");
}

TEST(RebatchTest, KeepsWhatMayBeGathered) {
  EXPECT_EQ(Rebatched("mesh []\nfunc f(%a: f32[8] gather=allowed, var %w: f32[] gather=on_use) {\n"
                      "  %0 = mul %a, %w : f32[8] gather=allowed return %0 }",
                      8, 3),
            "mesh []\nfunc f(%a: f32[3] gather=allowed,\n     var %w: f32[] gather=on_use) {\n"
            "  %0 = mul %a, %w : f32[3] gather=allowed\n  return %0\n}\n");
}

// A training step: the mean loss over the batch, its gradient, an update.
Graph TrainingStep(int64_t rows) {
  Graph g{Mesh()};
  const Value x = g.Input("x", F64, {rows, 2}, {UNSHARDED, UNSHARDED});
  const Value labels = g.Input("labels", I32, {rows}, {UNSHARDED});
  const Variable w = g.Var("w", {{F64, {2, 3}}, nullptr}, {UNSHARDED, UNSHARDED});
  const Value loss = SparseSoftmaxCrossEntropy(Tanh(MatMul(x, w)), labels);
  g.Update(w, w - Gradients(loss, {w})[0]);
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

// Slices, padding and lookups of a batch, and their gradients.
Graph IndexingStep(int64_t rows) {
  Graph g{Mesh()};
  const Value x = g.Input("x", F64, {rows, 2}, {UNSHARDED, UNSHARDED});
  const Value ids = g.Input("ids", I32, {rows}, {UNSHARDED});
  const Variable w = g.Var("w", {{F64, {2, 4}}, nullptr}, {UNSHARDED, UNSHARDED});
  const std::vector<Value> halves = Split(Tanh(MatMul(x, w)), 2, 1);
  const Value rows_of_w = Concat({Gather(w, ids, 0), halves[0]}, 1);
  const Value late = Pad(Gather(Reverse(halves[1], {0}), ids, 0), {1, 0}, {-1, 0}, 0.5);
  const Value loss = ReduceMean(SliceDim(rows_of_w, 1, 3, 5) * late, {0, 1});
  g.Update(w, w - Gradients(loss, {w})[0]);
  g.Output("loss", loss);
  return g;
}

TEST(RebatchTest, GradientsOfSlicesAndLookupsFollow) {
  const Graph five = IndexingStep(5);
  const std::map<std::string, std::vector<double>> feeds = {
      {"x", {1, -2, 0.5, 3, 2, 2}}, {"ids", {2, -1, 1}}, {"w", {0.1, 0.2, 0.3, -0.4, 0.5, 0, 0.7, -0.8}}};
  const InterpretedStep got = Interpret(Rebatch(five, 5, 3).value(), feeds),
                        want = Interpret(IndexingStep(3), feeds);
  EXPECT_EQ(got.outputs.at("loss"), want.outputs.at("loss"));
  EXPECT_EQ(got.variables.at("w"), want.variables.at("w"));
}

// Every op that takes a size or a position along the batch: either the program for fewer rows is the one that
// would be written for them, or it is refused with the reason. `is_made`: it is not refused.
struct AlongBatch {
  const char* name;
  Value (*make)(const Value& h, int64_t rows);
  bool is_made = true;
};

constexpr AlongBatch kAlongBatch[] = {
    {"first", [](const Value& h, int64_t) { return h[0]; }},
    {"third", [](const Value& h, int64_t) { return h[2]; }},
    {"two_places", [](const Value& h, int64_t) { return h[0] * h[1]; }},
    {"place_and_rest", [](const Value& h, int64_t) { return h * h[1]; }},
    {"one_row", [](const Value& h, int64_t) { return SliceDim(h, 0, 1, 2); }},
    {"last", [](const Value& h, int64_t) { return h[-1]; }, false},
    {"two_rows", [](const Value& h, int64_t) { return SliceDim(h, 0, 0, 2); }, false},
    {"every_second", [](const Value& h, int64_t rows) { return SliceDim(h, 0, 0, rows, 2); }, false},
    {"halves", [](const Value& h, int64_t) { return Split(h, 2, 0)[0]; }, false},
    {"copies_of_rows", [](const Value& h, int64_t) { return Repeat(h, 3, 0); }},
    {"copies_of_columns",
     [](const Value& h, int64_t) {
       return Tile(h, {1, 3});
     }},
    {"copies",
     [](const Value& h, int64_t) {
       return Tile(h, {3, 1});
     },
     false},
    {"padded",
     [](const Value& h, int64_t) {
       return Pad(h, {1, 0}, {2, 0}, 0.5);
     }},
    {"backwards", [](const Value& h, int64_t) { return Reverse(h, {0}); }},
    {"rolled", [](const Value& h, int64_t) { return Roll(h, 1, 0); }},
    {"joined",
     [](const Value& h, int64_t) {
       return Concat({h, Tanh(h)}, 0);
     },
     false},  // its gradient
    {"stacked",
     [](const Value& h, int64_t) {
       return Stack({h, Tanh(h)}, 1);
     }},
    {"sums", [](const Value& h, int64_t) { return Cumsum(h, 0); }},
    {"sorted", [](const Value& h, int64_t) { return Sort(h, 0).values; }},
    {"largest", [](const Value& h, int64_t) { return TopK(h, 2, 0).values; }},
    {"flat", [](const Value& h, int64_t rows) { return Reshape(h, {rows * 2}); }},
    {"gathered",
     [](const Value& h, int64_t) {
       return Gather(h, Constant(*h.graph(), std::vector<double>{0, 2, 1}, {I32, {3}}), 0);
     }},
    {"window",
     [](const Value& h, int64_t) {
       return DynamicSlice(h, Constant(*h.graph(), std::vector<double>{1}, {I32, {1}}), {0}, {2});
     }},
};

// Outputs op(tanh(x w)), and updates w by d mean(op(tanh(x w))²) / dw.
Graph AlongBatchStep(const AlongBatch& op, int64_t rows) {
  Graph g{Mesh()};
  const Value x = g.Input("x", F64, {rows, 2}, {UNSHARDED, UNSHARDED});
  const Variable w = g.Var("w", {{F64, {2, 2}}, nullptr}, {UNSHARDED, UNSHARDED});
  const Value y = op.make(Tanh(MatMul(x, w)), rows);
  g.Update(w, w - Gradients(ReduceMean(Square(y)), {w})[0]);
  g.Output("y", y);
  return g;
}

TEST(RebatchTest, OpsAlongTheBatchAreThoseOfThatSizeOrRefused) {
  std::map<std::string, std::vector<double>> feeds = {{"w", {0.1, 0.2, -0.4, 0.5}}};
  for (const AlongBatch& op : kAlongBatch) {
    for (const int64_t rows : {3, 4, 5, 7}) {
      SCOPED_TRACE(fmt::format("{}, {} rows", op.name, rows));
      const absl::StatusOr<Graph> graph = Rebatch(AlongBatchStep(op, 8), 8, rows);
      EXPECT_EQ(graph.ok(), op.is_made) << graph.status();
      if (!graph.ok()) {
        EXPECT_THAT(std::string(MessageOf(graph.status())), testing::HasSubstr("rebatch_test.cc:"));
        continue;
      }
      feeds["x"].clear();
      for (int64_t i = 0; i < 2 * rows; ++i) feeds["x"].push_back(static_cast<double>(i * 5 % 7 - 3) / 2);
      const InterpretedStep got = Interpret(*graph, feeds), want = Interpret(AlongBatchStep(op, rows), feeds);
      EXPECT_EQ(got.outputs.at("y"), want.outputs.at("y"));
      EXPECT_EQ(got.variables.at("w"), want.variables.at("w"));
    }
  }
}

// A refusal names the position that fewer rows do not have.
TEST(RebatchTest, APlaceBeyondTheRowsIsRefused) {
  const AlongBatch sixth = {"sixth", [](const Value& h, int64_t) { return h[5]; }};
  EXPECT_TRUE(Rebatch(AlongBatchStep(sixth, 8), 8, 6).ok());
  EXPECT_THAT(std::string(MessageOf(Rebatch(AlongBatchStep(sixth, 8), 8, 5).status())),
              testing::HasSubstr("start=5 limit=6"));
}

}  // namespace
}  // namespace meshwork::rebatch_test
