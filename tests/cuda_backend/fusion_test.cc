// Steps that run as one kernel on a GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "cuda_backend/caught_plan.h"
#include "fmt/ranges.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/text.h"
#include "meshwork/runtime/cuda/cuda_fusion.h"
#include "meshwork/runtime/cuda/storage_map.h"
#include "support/long_tests.h"
#include "support/random_program.h"
#include "support/random_training.h"

namespace meshwork::fusion_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// "add relu: 2 -> 1" per group: its ops, how many operands it reads, how many results it writes.
std::vector<std::string> GroupsOf(std::string_view text) {
  const StepPlan plan = OrderForFusion(CaughtPlanOf(ParseGraph(text).value()));
  std::vector<std::string> groups;
  for (const CudaGroup& group : FindCudaGroups(plan)) {
    std::vector<std::string_view> ops;
    for (const CudaChainOp& op : group.ops) ops.push_back(op.row->name);
    EXPECT_EQ(group.end - group.first, group.ops.size());
    groups.push_back(
        fmt::format("{}: {} -> {}", fmt::join(ops, " "), group.operands.size(), group.stored.size()));
  }
  return groups;
}

TEST(CudaFusionTest, ElementwiseStepsOfOneShapeAreOneKernel) {
  EXPECT_THAT(GroupsOf(R"(mesh []
func f(%x: f32[4,6] {_,_}, %b: f32[6] {_}) {
  %y = add %x, %b
  %z = relu %y
  %u = exp %y
  return z=%z, u=%u
})"),
              ElementsAre("add relu exp: 2 -> 2"));
}

TEST(CudaFusionTest, SoftmaxIsOneKernel) {
  EXPECT_THAT(GroupsOf(R"(mesh []
func f(%x: bf16[128,6] {_,_}) {
  %c = cast %x dtype=f32
  %m = reduce_max %c dims=[1] keep_dims=true
  %d = sub %c, %m
  %e = exp %d
  %s = reduce_sum %e dims=[1] keep_dims=true
  %y = div %e, %s
  return %y
})"),
              ElementsAre("cast reduce_max sub exp reduce_sum div: 1 -> 1"));
}

// A step that does not join, and is needed only after the group, does not divide it; what the group needs moves before.
TEST(CudaFusionTest, StepsAreMovedOutOfTheWay) {
  EXPECT_THAT(GroupsOf(R"(mesh []
func f(%x: f32[128,6] {_,_}, %t: i32[128] {_}) {
  %e = exp %x
  %c = reduce_sum %e dims=[0]
  %h = one_hot %t depth=6 dtype=f32
  %y = mul %e, %h
  %z = neg %c
  return e=%e, y=%y, z=%z
})"),
              ElementsAre("exp one_hot mul: 2 -> 2"));
}

// Ops that only broadcast a small operand, or make it one-hot, join the group of their readers, with or without others.
TEST(CudaFusionTest, SmallOperandsAreSpreadByTheirReaders) {
  EXPECT_THAT(GroupsOf(R"(mesh []
func f(%x: bf16[128,6] {_,_}, %t: i32[128] {_}, %w: f32[128] {_}) {
  %h = one_hot %t depth=6 dtype=bool
  %b = broadcast_to %w shape=[128,6] dims=[0]
  %c = cast %x dtype=f32
  %m = reduce_max %c dims=[1] keep_dims=true
  %z = sub %c, %m
  %l = select %h, %z, %b
  %s = reduce_sum %l dims=[1]
  return %s
})"),
              ElementsAre("cast reduce_max sub broadcast_to one_hot select reduce_sum: 3 -> 1"));
  EXPECT_THAT(GroupsOf(R"(mesh []
func f(%x: f32[128,6] {_,_}, %y: f32[128,6] {_,_}, %w: f32[] {}) {
  %b = broadcast_to %w shape=[128,6] dims=[]
  %e = exp %x
  %c = add %e, %b
  %d = neg %y
  return c=%c, d=%d
})"),
              ElementsAre("exp broadcast_to add: 2 -> 1"));
}

// If only a column sum reads a value, the sum's kernel computes it; ops after the sum do not join.
TEST(CudaFusionTest, ColumnSumsComputeWhatTheySum) {
  EXPECT_THAT(GroupsOf(R"(mesh []
func f(%g: bf16[64,16,8] {_,_,_}, %x: f32[64,16,8] {_,_,_}) {
  %c = cast %g dtype=f32
  %p = mul %c, %x
  %s = reduce_sum %p dims=[0,1]
  %r = sqrt %s
  %e = exp %c
  return r=%r, e=%e
})"),
              ElementsAre("cast mul exp reduce_sum: 2 -> 2"));
  // The number of columns is not a multiple of 4.
  EXPECT_THAT(GroupsOf(R"(mesh []
func f(%x: f32[64,6] {_,_}) {
  %p = exp %x
  %s = reduce_sum %p dims=[0]
  return %s
})"),
              IsEmpty());
}

// A thread would overwrite elements that others have yet to read: %n lies in %b's storage, which rows read as columns.
TEST(CudaFusionTest, WhatOthersReadIsNotWritten) {
  EXPECT_THAT(GroupsOf(R"(mesh []
func f(%x: f32[64,64] {_,_}, var %b: f32[64] {_}) {
  %y = add %x, %b
  %s = reduce_sum %y dims=[1]
  %n = sub %b, %s
  update %b = %n
  return y=%y
})"),
              ElementsAre("add reduce_sum: 2 -> 2"));
}

// A variable is updated in place, element by element.
TEST(CudaFusionTest, AResultMayLieInAnOperand) {
  EXPECT_THAT(GroupsOf(R"(mesh []
func f(%g: f32[8,3] {_,_}, var %w: f32[8,3] {_,_}) {
  %d = mul %w, %g
  %n = sub %w, %d
  update %w = %n
  return %d
})"),
              ElementsAre("mul sub: 2 -> 2"));
}

// Each row would occupy only one block.
TEST(CudaFusionTest, FewLongRowsAreReducedByThemselves) {
  constexpr std::string_view kText = R"(mesh []
func f(%x: f32[{},{}] {{_,_}}) {{
  %e = exp %x
  %s = reduce_sum %e dims=[1]
  return %s
}})";
  EXPECT_THAT(GroupsOf(fmt::format(kText, 2, 1 << 20)), IsEmpty());
  EXPECT_THAT(GroupsOf(fmt::format(kText, 1024, 2048)), ElementsAre("exp reduce_sum: 1 -> 1"));
}

TEST(CudaFusionTest, WhatAGroupKeepsToItselfHasNoMemory) {
  const StepPlan plan = OrderForFusion(CaughtPlanOf(ParseGraph(R"(mesh []
func f(%x: f32[64,256] {_,_}) {
  %a = square %x
  %m = reduce_max %a dims=[1] keep_dims=true
  %y = sub %a, %m
  %b = exp %y
  %s = reduce_sum %b dims=[1]
  return %s
})")
                                                        .value()));
  const StorageMap alone = MapStorages(plan, false), fused = MapStorages(plan, true);
  constexpr int64_t kWhole = 64 * 256 * 4;
  EXPECT_GE(alone.arena_bytes, 2 * kWhole);
  EXPECT_LT(fused.arena_bytes, kWhole + 1024);
}

// ---- The order.

// For each storage: its writes in order, and the steps that read it between the writes.
std::vector<std::vector<std::string>> StoriesOf(const StepPlan& plan) {
  std::vector<std::vector<std::string>> stories(plan.storages.size());
  std::vector<std::multiset<std::string>> readers(plan.storages.size());
  for (const Step& step : plan.steps) {
    std::set<int> reads, writes;
    std::string name;
    const auto at = [&](std::set<int>& storages, BufferId buffer) {
      if (buffer >= 0) storages.insert(plan.buffers[static_cast<size_t>(buffer)].storage);
    };
    if (const auto* const compute = std::get_if<ComputeStep>(&step)) {
      name = fmt::format("node {}", compute->node);
      for (const ValueBuffers& value : compute->in) at(reads, value.first);
      for (const ValueBuffers& value : compute->out) at(writes, value.first);
    } else if (const auto* const copies = std::get_if<CopyStep>(&step)) {
      name = fmt::format("copies {} {} {}", static_cast<int>(copies->kind), copies->node, copies->subject);
      for (const Transfer& transfer : copies->transfers) {
        at(writes, transfer.to);
        for (BufferId from : transfer.from) at(reads, from);
      }
    } else if (const auto* const nested = std::get_if<NestedStep>(&step)) {
      name = fmt::format("loop {}", nested->node);
      for (BufferId argument : nested->arguments) at(writes, argument);
      for (const ValueBuffers& value : nested->in) at(writes, value.first);
      for (const ValueBuffers& value : nested->out) at(writes, value.first);
      at(reads, nested->predicate);
    }
    for (const int s : reads) readers[static_cast<size_t>(s)].insert(name);
    for (const int s : writes) {
      auto& story = stories[static_cast<size_t>(s)];
      // A step that reads and writes a storage reads first.
      std::multiset<std::string>& before = readers[static_cast<size_t>(s)];
      story.push_back(fmt::format("{} | {}", fmt::join(before, ", "), name));
      before.clear();
    }
  }
  for (size_t s = 0; s < stories.size(); ++s)
    stories[s].push_back(fmt::format("{}", fmt::join(readers[s], ", ")));
  return stories;
}

TEST(CudaFusionTest, WhatReadsAndWritesAStorageKeepsItsOrder) {
  const RandomPrograms programs;
  int groups = 0;
  for (uint64_t seed = 0; seed < (LongTests() ? 1000 : 40); ++seed) {
    for (const RandomProgram& random : {programs.Draw(seed), programs.DrawLoops(seed), DrawTraining(seed)}) {
      const StepPlan plan = CaughtPlanOf(random.graph);
      const StepPlan ordered = OrderForFusion(plan);
      ASSERT_EQ(plan.steps.size(), ordered.steps.size());
      EXPECT_EQ(StoriesOf(plan), StoriesOf(ordered)) << ToString(plan) << "\n" << ToString(ordered);
      groups += static_cast<int>(FindCudaGroups(ordered).size());
    }
  }
  EXPECT_GT(groups, 20);
}

}  // namespace
}  // namespace meshwork::fusion_test
