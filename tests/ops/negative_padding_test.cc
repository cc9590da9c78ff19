// Negative padding crops: the windows of an image without the elements at its ends.
#include "base/status.h"
#include "gtest/gtest.h"
#include "ops/difference.h"
#include "ops/ops.h"
#include "ops/text.h"

namespace meshwork {
namespace {

Graph Build(Value (*make)(const Value& x, const Value& w)) {
  Graph graph(Mesh::Parse("x=2").value());
  const Value x = graph.Input("x", F32, {2, 8, 9, 3}, {UNSHARDED, "x", UNSHARDED, UNSHARDED});
  const Value w = graph.Input("w", F32, {3, 3, 3, 4}, {UNSHARDED, UNSHARDED, UNSHARDED, UNSHARDED});
  graph.Output("y", make(x, w));
  EXPECT_TRUE(graph.status().ok()) << MessageOf(graph.status());
  return graph;
}

TEST(NegativePadding, IsASliceBefore) {
  const Graph conv = Build([](const Value& x, const Value& w) {
    return Conv(x, w, {.window = {.padding = WindowPadding::Explicit({-1, 1}, {0, -2})}});
  });
  const Graph sliced_conv = Build([](const Value& x, const Value& w) {
    return Conv(Slice(x, {0, 1, 0, 0}, {2, 8, 7, 3}), w,
                {.window = {.padding = WindowPadding::Explicit({0, 1}, {0, 0})}});
  });
  EXPECT_EQ(FirstDifference(conv, sliced_conv), "") << PrintGraph(conv);
  const Graph pool = Build([](const Value& x, const Value&) {
    return MaxPool(x, {2, 2}, {.padding = WindowPadding::Explicit({0, -1}, {-3, 0})});
  });
  const Graph sliced_pool = Build([](const Value& x, const Value&) {
    return MaxPool(Slice(x, {0, 0, 1, 0}, {2, 5, 9, 3}), {2, 2},
                   {.padding = WindowPadding::Explicit({0, 0}, {0, 0})});
  });
  EXPECT_EQ(FirstDifference(pool, sliced_pool), "") << PrintGraph(pool);
  const Graph mean = Build([](const Value& x, const Value&) {
    return AvgPool(x, {2, 2}, {.padding = WindowPadding::Explicit({1, -1}, {0, -1})});
  });
  const Graph sliced_mean = Build([](const Value& x, const Value&) {
    return AvgPool(Slice(x, {0, 0, 1, 0}, {2, 8, 8, 3}), {2, 2},
                   {.padding = WindowPadding::Explicit({1, 0}, {0, 0})});
  });
  EXPECT_EQ(FirstDifference(mean, sliced_mean), "") << PrintGraph(mean);
}

// More is cropped than there is: the op says so.
TEST(NegativePadding, OfMoreThanThereIsIsRefused) {
  Graph graph(Mesh{});
  const Value x = graph.Input("x", F32, {2, 4, 3}, {UNSHARDED, UNSHARDED, UNSHARDED});
  EXPECT_FALSE(MaxPool(x, {2}, {.padding = WindowPadding::Explicit({-3}, {-2})}).valid());
  EXPECT_FALSE(graph.status().ok());
}

}  // namespace
}  // namespace meshwork
