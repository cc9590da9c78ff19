// Shorthands: dims from the end, reductions of all dims, comparisons, x += y, x[i], constants of data.
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/ops/control/rebatch.h"
#include "meshwork/ops/ops.h"
#include "support/interpreter.h"

namespace meshwork::shorthands_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// x: f64[2,3] = [[1, 2, 3], [4, 5, 6]].
struct Program {
  Graph g{Mesh()};
  Value x = g.Input("x", F64, {2, 3});

  std::vector<double> Of(const Value& value) {
    g.Output("y", value);
    const auto numbers = Interpret(g, {{"x", {1, 2, 3, 4, 5, 6}}}).outputs.at("y").Numbers();
    g.ClearOutputs();
    return {numbers.begin(), numbers.end()};
  }
};

TEST(ShorthandTest, ReductionsTakeAllDimsOneOrSome) {
  Program p;
  EXPECT_THAT(p.Of(ReduceSum(p.x)), ElementsAre(21));
  EXPECT_THAT(p.Of(ReduceSum(p.x, 1)), ElementsAre(6, 15));
  EXPECT_THAT(p.Of(ReduceSum(p.x, -2)), ElementsAre(5, 7, 9));
  EXPECT_THAT(p.Of(ReduceSum(p.x, {-1})), ElementsAre(6, 15));
  EXPECT_THAT(p.Of(ReduceSum(p.x, {1, -2})), ElementsAre(21));
  EXPECT_THAT(p.Of(ReduceSum(p.x, {})), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(ReduceSum(p.x, ALL_DIMS, /*keep_dims=*/true).shape(), (Shape{1, 1}));
  EXPECT_THAT(p.Of(ReduceMean(p.x)), ElementsAre(3.5));
  EXPECT_THAT(p.Of(ReduceMax(p.x, 0)), ElementsAre(4, 5, 6));
  EXPECT_THAT(p.Of(ReduceMin(p.x, -1)), ElementsAre(1, 4));
  EXPECT_THAT(p.Of(ReduceProd(p.x)), ElementsAre(720));
  EXPECT_THAT(p.Of(ReduceAll(p.x > 1.0, -1)), ElementsAre(0, 1));
  EXPECT_THAT(p.Of(ReduceAny(p.x > 5.0)), ElementsAre(1));
  EXPECT_THAT(p.Of(Variance(p.x)), ElementsAre(35.0 / 12));
  EXPECT_NEAR(p.Of(LogSumExp(p.x * 0.0))[0], std::log(6), 1e-15);
  EXPECT_NEAR(p.Of(Norm(p.x))[0], std::sqrt(91), 1e-14);
  EXPECT_EQ(p.g.status(), absl::OkStatus());
}

// Every op that takes a dim counts from the end, too, and adds the same node as with the dim from the front.
TEST(ShorthandTest, DimsMayCountFromTheEnd) {
  Graph g{Mesh()};
  const Value x = g.Input("x", F32, {2, 1, 3}), i = g.Input("i", I32, {2}), w = g.Input("w", I32, {2, 1, 3});
  const auto expect_same = [&](const char* what, const Value& a, const Value& b) {
    ASSERT_EQ(g.status(), absl::OkStatus()) << what;
    EXPECT_EQ(a.type(), b.type()) << what;
    const Node &one = g.nodes()[g.value(a.id()).node], &other = g.nodes()[g.value(b.id()).node];
    EXPECT_EQ(one.row, other.row) << what;
    EXPECT_EQ(one.attrs, other.attrs) << what;
  };
  expect_same("Argmax", Argmax(x, -1), Argmax(x, 2));
  expect_same("Argmin", Argmin(x, -3), Argmin(x, 0));
  expect_same("Cumsum", Cumsum(x, -1), Cumsum(x, 2));
  expect_same("Cummax", Cummax(x, -1), Cummax(x, 2));
  expect_same("LinearRecurrence", LinearRecurrence(x, x, -1), LinearRecurrence(x, x, 2));
  expect_same("Sort", Sort(x, -1).values, Sort(x, 2).values);
  expect_same("ArgSort", ArgSort(x, -1), ArgSort(x, 2));
  expect_same("TopK", TopK(x, 2, -1).values, TopK(x, 2, 2).values);
  expect_same("Gather", Gather(x, i, -1), Gather(x, i, 2));
  expect_same("ScatterAdd", ScatterAdd(x, Cast(g.Input("j", I32, {3}), I32), {2, 1, 5}, -1),
              ScatterAdd(x, Cast(g.Input("k", I32, {3}), I32), {2, 1, 5}, 2));
  expect_same("TakeAlongDim", TakeAlongDim(x, w, -1), TakeAlongDim(x, w, 2));
  expect_same("Concat", Concat({x, x}, -1), Concat({x, x}, 2));
  expect_same("Stack", Stack({x, x}, -1), Stack({x, x}, 3));
  expect_same("Reverse", Reverse(x, {-1, 0}), Reverse(x, {2, 0}));
  expect_same("Roll", Roll(x, 1, -1), Roll(x, 1, 2));
  expect_same("SliceDim", SliceDim(x, -1, 1, 2), SliceDim(x, 2, 1, 2));
  expect_same("Split", Split(x, 3, -1)[1], Split(x, 3, 2)[1]);
  expect_same("SplitSizes", SplitSizes(x, {1, 2}, -1)[1], SplitSizes(x, {1, 2}, 2)[1]);
  expect_same("Squeeze", Squeeze(x, -2), Squeeze(x, {1}));
  expect_same("ExpandDims", ExpandDims(x, -1), ExpandDims(x, {3}));
  expect_same("ExpandDims", ExpandDims(x, {-1, 0}), ExpandDims(x, {0, 4}));
  expect_same("Transpose", Transpose(x, {-1, 0, 1}), Transpose(x, {2, 0, 1}));
  expect_same("BroadcastTo", BroadcastTo(x, {4, 2, 1, 3}, {-3, -2, -1}),
              BroadcastTo(x, {4, 2, 1, 3}, {1, 2, 3}));
  expect_same("DimensionSize", DimensionSize(x, -1, I32), DimensionSize(x, {2}, I32));
  expect_same("Flatten", Flatten(x, -2), Flatten(x, 1));
  expect_same("Iota", Iota(g, {I32, {2, 3}}, -1), Iota(g, {I32, {2, 3}}, 1));
  expect_same("DynamicSlice", DynamicSlice(x, g.Input("s", I32, {1}), {-1}, {2}),
              DynamicSlice(x, g.Input("t", I32, {1}), {2}, {2}));
}

TEST(ShorthandTest, OneSizeOfAReshapeIsFoundOut) {
  Program p;
  EXPECT_EQ(Reshape(p.x, {-1}).shape(), (Shape{6}));
  EXPECT_EQ(Reshape(p.x, {3, -1}).shape(), (Shape{3, 2}));
  EXPECT_EQ(Reshape(p.x, {-1, 6, 1}).shape(), (Shape{1, 6, 1}));
  EXPECT_EQ(p.g.status(), absl::OkStatus());
  for (const Shape& shape :
       {Shape{-1, -1}, Shape{4, -1}, Shape{0, -1}, Shape{-1, int64_t{1} << 40, 1 << 30}}) {
    Program wrong;
    EXPECT_FALSE(Reshape(wrong.x, shape).valid());
    EXPECT_THAT(wrong.g.status().message(), HasSubstr("one size may be -1"));
  }
}

TEST(ShorthandTest, OperatorsCompare) {
  Program p;
  EXPECT_THAT(p.Of(p.x > 3.0), ElementsAre(0, 0, 0, 1, 1, 1));
  EXPECT_THAT(p.Of(p.x >= 3.0), ElementsAre(0, 0, 1, 1, 1, 1));
  EXPECT_THAT(p.Of(p.x < 3.0), ElementsAre(1, 1, 0, 0, 0, 0));
  EXPECT_THAT(p.Of(3.0 <= p.x), ElementsAre(0, 0, 1, 1, 1, 1));
  EXPECT_EQ((p.x >= p.x).dtype(), BOOL);
}

template <typename T>
concept CanGrow = requires(T a, Value b) {
  a += b;
};

TEST(ShorthandTest, AssignmentsMakeTheHandleStandForTheResult) {
  Program p;
  Value y = p.x;
  y += 1.0;
  y *= p.x;
  y -= 2.0;
  const int line = __LINE__ + 1;
  y /= 2.0;
  EXPECT_THAT(p.Of(y), ElementsAre(0, 2, 5, 9, 14, 20));
  EXPECT_EQ(p.g.value(y.id()).location.line, line);
  EXPECT_TRUE(CanGrow<Value&>);
  EXPECT_FALSE(CanGrow<Variable&>);
}

TEST(ShorthandTest, IndexingGivesASlice) {
  Program p;
  EXPECT_THAT(p.Of(p.x[1]), ElementsAre(4, 5, 6));
  EXPECT_THAT(p.Of(p.x[-2]), ElementsAre(1, 2, 3));
  EXPECT_THAT(p.Of(p.x[1][-1]), ElementsAre(6));
  EXPECT_EQ(p.x[0][0].rank(), 0);
  EXPECT_EQ(p.g.status(), absl::OkStatus());
}

TEST(ShorthandTest, InputsWithoutALayoutAreWhole) {
  Graph g(Mesh::Parse("batch=2").value());
  const Value x = g.Input("x", F32, {4, 6}), s = g.Input("s", F32, {});
  EXPECT_EQ(g.value(x.id()).layout->ToString(), "{_,_}");
  EXPECT_EQ(g.value(s.id()).layout->ToString(), "{}");
}

TEST(ConstantTest, HoldsElementsOfEveryDType) {
  const double kInfinity = std::numeric_limits<double>::infinity();
  Program p;
  EXPECT_THAT(p.Of(Constant(p.g, {-1.5, 0, kInfinity}, {F64, {3}})), ElementsAre(-1.5, 0, kInfinity));
  EXPECT_THAT(p.Of(Constant(p.g, {0.1, -2}, {F32, {2, 1}})), ElementsAre(0.1f, -2));
  EXPECT_THAT(p.Of(Constant(p.g, std::vector<float>{1.00390625f, 3}, {BF16, {2}})), ElementsAre(1, 3));
  EXPECT_THAT(p.Of(Constant(p.g, {1, 0, 1}, {BOOL, {3}})), ElementsAre(1, 0, 1));
  EXPECT_THAT(p.Of(Constant(p.g, std::vector<int64_t>{5, -6}, {I32, {2}})), ElementsAre(5, -6));
  EXPECT_THAT(p.Of(Constant(p.g, std::vector<bool>{true, false}, {F64, {2}})), ElementsAre(1, 0));
  const int64_t large = (int64_t{1} << 53) + 1;  // no double holds it
  EXPECT_THAT(p.Of(Constant(p.g, std::vector<int64_t>{large}, {I64, {1}}) - std::ldexp(1, 53)),
              ElementsAre(1));
  EXPECT_TRUE(std::signbit(p.Of(Constant(p.g, {-0.0, 1}, {F32, {2}}))[0]));
  EXPECT_TRUE(p.Of(Constant(p.g, std::vector<double>(), {F32, {0, 3}})).empty());
}

// With a shorter batch a constant keeps its first rows, along whichever dim the batch lies.
TEST(ConstantTest, FollowsTheBatch) {
  Graph g{Mesh()};
  const Value x = g.Input("x", F64, {3, 2});
  g.Output("rows", x + Constant(g, {1, 2, 3, 4, 5, 6}, {F64, {3, 2}}));
  g.Output("columns", Transpose(x, {1, 0}) + Constant(g, {1, 2, 3, 4, 5, 6}, {F64, {2, 3}}));
  const InterpretedStep step = Interpret(Rebatch(g, 3, 2).value(), {{"x", {10, 20, 30, 40}}});
  EXPECT_THAT(step.outputs.at("rows").Numbers(), ElementsAre(11, 22, 33, 44));
  EXPECT_THAT(step.outputs.at("columns").Numbers(), ElementsAre(11, 32, 24, 45));
}

}  // namespace
}  // namespace meshwork::shorthands_test
