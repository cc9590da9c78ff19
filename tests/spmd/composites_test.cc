// What softmax and layer norm cost over a sharded dim: all-reduces of one number per row, never the rows.
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "gtest/gtest.h"
#include "ops/gradients.h"
#include "ops/ops.h"
#include "ops/program.h"
#include "spmd/compile.h"

namespace meshwork {
namespace {

constexpr int64_t kRows = 16, kColumns = 64;

// All-reduces and their wire bytes of y = build(x), and of its gradient by x as well.
struct Cost {
  int64_t count = 0, bytes = 0;
};
Cost CostOf(const std::function<Value(const Value&)>& build, bool with_gradient) {
  Graph g(Mesh::VirtualCpus("x=8").value());
  const Value x = g.Input("x", F32, {kRows, kColumns}, {UNSHARDED, "x"});
  const Value cotangent = g.Input("cotangent", F32, {kRows, kColumns}, {UNSHARDED, "x"});
  const Value y = build(x);
  // Back in the layout of x, without the loss, whose sum would count.
  g.Output("y", Relayout(y, {UNSHARDED, "x"}));
  if (with_gradient) {
    const Value loss = ReduceSum(y * cotangent, {0, 1});
    g.Output("dx", Relayout(Gradients(loss, {{x}})[0], {UNSHARDED, "x"}));
  }
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

void ExpectCost(const std::function<Value(const Value&)>& build, int64_t forward, int64_t both) {
  constexpr int64_t kBytes = 2 * 7 * kRows * 4 / 8;  // 2(n-1)/n·B of one number per row
  const Cost y = CostOf(build, false), y_and_dx = CostOf(build, true);
  EXPECT_EQ(y.count, forward);
  EXPECT_EQ(y.bytes, forward * kBytes);
  EXPECT_EQ(y_and_dx.count, both);
  EXPECT_EQ(y_and_dx.bytes, both * kBytes);
}

TEST(CompositesTest, SoftmaxOverAShardedDimSumsOneNumberPerRowTwiceAndOnceMoreForItsGradient) {
  ExpectCost([](const Value& x) { return Softmax(x); }, 2, 3);
  ExpectCost([](const Value& x) { return LogSoftmax(x); }, 2, 3);
}

TEST(CompositesTest, StandardizeOverAShardedDimSumsOneNumberPerRowTwiceAndTwiceForItsGradient) {
  ExpectCost([](const Value& x) { return Standardize(x, {1}, 1e-5); }, 2, 4);
}

TEST(CompositesTest, RowsAlongTheOtherDimCostNothing) {
  ExpectCost([](const Value& x) { return Softmax(x, 0); }, 0, 0);
  ExpectCost([](const Value& x) { return Standardize(x, {0}, 1e-5); }, 0, 0);
}

}  // namespace
}  // namespace meshwork
