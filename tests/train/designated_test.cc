// Programs that are compiled with -Wextra may name only those members of the library's structs that they want to set.
#include <vector>

#include "gtest/gtest.h"
#include "meshwork.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wmissing-field-initializers"

namespace meshwork::designated_test {
namespace {

TEST(DesignatedTest, OtherMembersHaveDefaults) {
  LineChart chart{.title = "MLP on MNIST", .x_label = "step"};
  chart.panels.push_back({.title = "Loss", .series = {{.name = "train", .style = LineStyle::kFaint}}});
  EXPECT_EQ(chart.panels[0].series[0].paint, 0);
  const UpdateRule rule{.name = "Sign", .slots = {{.name = "m"}}};
  EXPECT_EQ(rule.options, absl::OkStatus());
  EXPECT_FALSE(rule.counts_steps);
  const ParameterGroup group{.weight_decay = 0};
  EXPECT_FALSE(group.frozen);
  const ScanStep step{.stacked = {}};
  EXPECT_TRUE(step.carries.empty());
  const CheckpointOptions checkpoints{.dir = "run"};
  EXPECT_EQ(checkpoints.dir, "run");
  const TensorSlice slice{.end = 3};
  EXPECT_EQ(slice.step, 1);
  const SessionOptions session{.seed = 3, .executor = {.profile = true}};
  EXPECT_EQ(session.workers, 0);
  const BatchesOptions batches{.batch_size = 8};
  EXPECT_EQ(batches.lanes, 1);
  const DenseOptions dense{.dtype = F64};
  EXPECT_EQ(dense.dtype, F64);
}

}  // namespace
}  // namespace meshwork::designated_test

#pragma GCC diagnostic pop
