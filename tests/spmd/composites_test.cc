// The communication of softmax and layer norm over a sharded dim: all-reduces of one number per row, never the rows.
#include <functional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/gradients.h"
#include "meshwork/ir/program.h"
#include "meshwork/ops/ops.h"
#include "meshwork/spmd/compile.h"

namespace meshwork::composites_test {
namespace {

constexpr int64_t kRows = 16, kColumns = 64;
constexpr int64_t kBytesPerRow = 2 * 7 * kRows * 4 / 8;  // 2(n-1)/n·B of one number per row

// All-reduces and their wire bytes.
struct Cost {
  int64_t count = 0, bytes = 0;
};
Cost AllReducesOf(const Graph& g) {
  const absl::StatusOr<Program> program = Compile(g);
  EXPECT_TRUE(program.ok()) << program.status();
  Cost cost;
  for (const CollectiveSummary& summary : SummarizeCollectives(program->body)) {
    EXPECT_EQ(summary.type, "all_reduce");
    cost.count += summary.count;
    cost.bytes += summary.bytes;
  }
  return cost;
}

// The cost of y = build(x), and of its gradient by x as well.
Cost CostOf(const std::function<Value(const Value&)>& build, bool with_gradient) {
  Graph g(Mesh::VirtualCpus("x=8").value());
  const Value x = g.Input("x", F32, {kRows, kColumns}, {UNSHARDED, "x"});
  const Value cotangent = g.Input("cotangent", F32, {kRows, kColumns}, {UNSHARDED, "x"});
  const Value y = build(x);
  // y and the gradient get the layout of x. The loss is no output, since its sum would count.
  g.Output("y", Relayout(y, {UNSHARDED, "x"}));
  if (with_gradient) {
    const Value loss = ReduceSum(y * cotangent, {0, 1});
    g.Output("dx", Relayout(Gradients(loss, {x})[0], {UNSHARDED, "x"}));
  }
  return AllReducesOf(g);
}

void ExpectCost(const std::function<Value(const Value&)>& build, int64_t forward, int64_t both) {
  const Cost y = CostOf(build, false), y_and_dx = CostOf(build, true);
  EXPECT_EQ(y.count, forward);
  EXPECT_EQ(y.bytes, forward * kBytesPerRow);
  EXPECT_EQ(y_and_dx.count, both);
  EXPECT_EQ(y_and_dx.bytes, both * kBytesPerRow);
}

TEST(CompositesTest, SoftmaxOverAShardedDimSumsOneNumberPerRowTwiceAndOnceMoreForItsGradient) {
  ExpectCost([](const Value& x) { return Softmax(x); }, 2, 3);
  ExpectCost([](const Value& x) { return LogSoftmax(x); }, 2, 3);
}

TEST(CompositesTest, StandardizeOverAShardedDimSumsOneNumberPerRowTwiceAndTwiceForItsGradient) {
  ExpectCost([](const Value& x) { return Standardize(x, {1}, 1e-5); }, 2, 4);
}

// All-reduces of the loss of logits whose classes are sharded, with its gradient or not.
Cost LossCost(const std::function<Value(Graph& g, const Value& z)>& build, bool with_gradient) {
  Graph g(Mesh::VirtualCpus("x=8").value());
  const Value z = g.Input("z", F32, {kRows, kColumns}, {UNSHARDED, "x"});
  const Value loss = build(g, z);
  g.Output("loss", loss);
  if (with_gradient) g.Output("dz", Relayout(Gradients(loss, {z})[0], {UNSHARDED, "x"}));
  return AllReducesOf(g);
}

// Two all-reduces: the maxima; sums and targets together.
TEST(CompositesTest, CrossEntropyOfShardedClassesSumsTwiceAndNotForItsGradient) {
  for (const bool with_gradient : {false, true}) {
    const Cost cost = LossCost(
        [](Graph& g, const Value& z) {
          return SparseSoftmaxCrossEntropy(z, g.Input("labels", I32, {kRows}, {UNSHARDED}));
        },
        with_gradient);
    EXPECT_EQ(cost.count, 2);
    EXPECT_EQ(cost.bytes, 3 * kBytesPerRow);
  }
}

// Three all-reduces: the maxima; the sums, for the gradient with those of the labels; the loss itself, a scalar.
TEST(CompositesTest, CrossEntropyOfShardedClassesAndSharesSumsThreeTimes) {
  for (const bool with_gradient : {false, true}) {
    const Cost cost = LossCost(
        [](Graph& g, const Value& z) {
          return SoftmaxCrossEntropy(z, g.Input("shares", F32, {kRows, kColumns}, {UNSHARDED, "x"}));
        },
        with_gradient);
    EXPECT_EQ(cost.count, 3);
    EXPECT_EQ(cost.bytes, (with_gradient ? 3 : 2) * kBytesPerRow + kBytesPerRow / kRows);
  }
}

// The weights' gradient changes the state; the terms of the loss alone are still reduced together with the sums.
TEST(CompositesTest, CrossEntropyOfAShardedLayerIsSummedWithItsShares) {
  Graph g(Mesh::VirtualCpus("x=8").value());
  const Value h = g.Input("h", F32, {kRows, 32}, {UNSHARDED, UNSHARDED});
  const Variable first = g.Var("first", {.type = {F32, {32, 32}}}, {UNSHARDED, UNSHARDED});
  const Variable last = g.Var("last", {.type = {F32, {32, kColumns}}}, {UNSHARDED, "x"});
  const Value loss =
      SparseSoftmaxCrossEntropy(MatMul(MatMul(h, first), last), g.Input("labels", I32, {kRows}, {UNSHARDED}));
  const std::vector<Value> gradients = Gradients(loss, {first, last});
  g.Update(first, gradients[0]);
  g.Update(last, gradients[1]);
  g.Output("loss", loss);
  const Cost cost = AllReducesOf(g);
  EXPECT_EQ(cost.count, 3);  // maxima; sums and targets; the gradient of what `last` reads
  EXPECT_EQ(cost.bytes, 3 * kBytesPerRow + 32 * kBytesPerRow);
}

TEST(CompositesTest, RowsAlongTheOtherDimCostNothing) {
  ExpectCost([](const Value& x) { return Softmax(x, 0); }, 0, 0);
  ExpectCost([](const Value& x) { return Standardize(x, {0}, 1e-5); }, 0, 0);
}

}  // namespace
}  // namespace meshwork::composites_test
