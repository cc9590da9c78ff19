#include "meshwork/runtime/cpu/fusion.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/runtime/cpu/placement.h"
#include "runtime/plan/programs.h"
#include "runtime/plan/schedules.h"

namespace meshwork::fusion_test {
namespace {

using ::testing::ElementsAre;

// The kernel instructions of a program on one worker.
std::vector<std::string> Groups(std::string_view text) {
  const Graph graph = ParseGraph(text).value();
  std::vector<std::string> groups;
  for (const Instruction& instruction : Make(text, 1, {}).instructions)
    if (instruction.kind == Instruction::Kind::kKernel) groups.push_back(NameOf(graph, instruction));
  return groups;
}

// ---- Ops that join.

constexpr std::string_view kSoftmax = R"(mesh [x=2]
func f(%a: f32[64,10] of f32[128,10] {x,_}) {
  %m = reduce_max %a dims=[1] keep_dims=true : f32[64,1] of f32[128,1] {x,_}
  %c = sub %a, %m : f32[64,10] of f32[128,10] {x,_}
  %e = exp %c : f32[64,10] of f32[128,10] {x,_}
  %s = reduce_sum %e dims=[1] keep_dims=true : f32[64,1] of f32[128,1] {x,_}
  %y = div %e, %s : f32[64,10] of f32[128,10] {x,_}
  return y=%y
})";

TEST(FusionTest, SoftmaxOverTheLastDimIsOneGroup) {
  EXPECT_THAT(Groups(kSoftmax), ElementsAre("reduce_max+sub+exp+reduce_sum+div"));
  const Schedule schedule = Make(kSoftmax, 1, {});
  EXPECT_EQ(schedule.instructions[0].rows, 128);
}

TEST(FusionTest, SoftmaxOverTheFirstDimReadsItsMaximaWhole) {
  EXPECT_THAT(Groups(R"(mesh []
func f(%a: f32[128,10] {_,_}) {
  %m = reduce_max %a dims=[0] keep_dims=true : f32[1,10] {_,_}
  %c = sub %a, %m : f32[128,10] {_,_}
  %e = exp %c : f32[128,10] {_,_}
  %s = reduce_sum %e dims=[0] keep_dims=true : f32[1,10] {_,_}
  %y = div %e, %s : f32[128,10] {_,_}
  return y=%y
})"),
              ElementsAre("reduce_max", "sub+exp", "reduce_sum", "div"));
}

TEST(FusionTest, AValueReadWholeEndsTheGroup) {
  EXPECT_THAT(Groups(R"(mesh []
func f(%a: f32[32,32] {_,_}) {
  %b = neg %a : f32[32,32] {_,_}
  %c = exp %b : f32[32,32] {_,_}
  %t = transpose %c permutation=[1,0] : f32[32,32] {_,_}
  %d = neg %t : f32[32,32] {_,_}
  return d=%d
})"),
              ElementsAre("neg+exp", "transpose+neg"));
}

TEST(FusionTest, AProductBeginsAGroup) {
  EXPECT_THAT(Groups(R"(mesh []
func f(%a: f32[32,16] {_,_}, %w: f32[16,8] {_,_}, %u: f32[8,4] {_,_}, %b: f32[8] {_}) {
  %n = neg %a : f32[32,16] {_,_}
  %h = matmul %n, %w : f32[32,8] {_,_}
  %i = add %h, %b : f32[32,8] {_,_}
  %j = relu %i : f32[32,8] {_,_}
  %k = matmul %j, %u : f32[32,4] {_,_}
  %l = exp %k : f32[32,4] {_,_}
  return l=%l
})"),
              ElementsAre("neg", "matmul+add+relu", "matmul+exp"));
}

// The new value of w overwrites the old value, which the product reads whole.
TEST(FusionTest, WhatAStepReadsWholeNoLaterStepOfTheGroupWritesOver) {
  const auto text = [](std::string_view variable) {
    return fmt::format(R"(mesh []
func f(%a: f32[16,16] {{_,_}}, var %w: f32[16,16] {{_,_}}, var %u: f32[16,16] {{_,_}}) {{
  %h = matmul %a, %w : f32[16,16] {{_,_}}
  %n = sub %w, %h : f32[16,16] {{_,_}}
  update %{} = %n
}})",
                       variable);
  };
  EXPECT_THAT(Groups(text("w")), ElementsAre("matmul", "sub"));
  EXPECT_THAT(Groups(text("u")), ElementsAre("matmul+sub"));
  // The update of a changes only rows that the product has already read: it reads a row at a time.
  EXPECT_THAT(Groups(R"(mesh []
func f(var %a: f32[16,16] {_,_}, %w: f32[16,16] {_,_}) {
  %h = matmul %a, %w : f32[16,16] {_,_}
  %n = sub %a, %h : f32[16,16] {_,_}
  update %a = %n
})"),
              ElementsAre("matmul+sub"));
}

// ---- Tiles.

// For each value, the number of rows of its tile; 0 if the value has its own storage for all rows.
std::map<std::string, int64_t> TileRows(std::string_view text, const Schedule& schedule) {
  const Graph graph = ParseGraph(text).value();
  std::map<std::string, int64_t> rows;
  for (const Instruction& instruction : schedule.instructions) {
    for (const KernelStep& step : instruction.steps) {
      for (const StepBuffer& at : step.buffers) {
        if (!at.is_result) continue;
        const Buffer& buffer = schedule.buffers[at.buffer];
        rows[graph.value(graph.nodes()[step.node].results[0]).name] =
            at.rows == StepBuffer::Rows::kAll ? 0 : buffer.bytes / (at.bytes / instruction.rows);
      }
    }
  }
  return rows;
}

TEST(FusionTest, WhatOnlyTheGroupReadsHasATileOfRowsPerWorker) {
  constexpr std::string_view kText = R"(mesh []
func f(%a: f32[4096,64] {_,_}) {
  %m = reduce_max %a dims=[1] keep_dims=true : f32[4096,1] {_,_}
  %c = sub %a, %m : f32[4096,64] {_,_}
  %e = exp %c : f32[4096,64] {_,_}
  %s = reduce_sum %e dims=[1] keep_dims=true : f32[4096,1] {_,_}
  return s=%s
})";
  for (int workers : {1, 2, 3}) {
    const Schedule schedule = Make(kText, workers, {});
    const Instruction& group = schedule.instructions[0];
    ASSERT_EQ(group.steps.size(), 4u);
    EXPECT_GT(group.tile, 0);
    EXPECT_EQ(MessageOf(CheckSchedule(schedule)), "");
    const std::map<std::string, int64_t> rows = TileRows(kText, schedule);
    for (const auto& [name, count] : rows) EXPECT_EQ(count, name == "s" ? 0 : group.tile) << name;
    // The part of a tile that the steps touch fits in the L1 cache: per row a, c (with e in its place), m and s.
    EXPECT_LE(group.tile * (2 * 64 + 1 + 1) * 4, 32 << 10);
    // Each worker has tiles of its own.
    for (const KernelStep& step : group.steps) {
      for (const StepBuffer& at : step.buffers) {
        if (at.rows == StepBuffer::Rows::kAll) continue;
        std::set<int> storages;
        for (int w = 0; w < workers; ++w) storages.insert(schedule.buffers[at.buffer + w].storage);
        EXPECT_EQ(storages.size(), static_cast<size_t>(workers));
      }
    }
  }
}

// The longest slice of an instruction.
int64_t LongestSlice(const Instruction& instruction) {
  int64_t longest = 0;
  for (const auto& slices : instruction.slices)
    for (const WorkSlice& slice : slices) longest = std::max(longest, slice.end - slice.begin);
  return longest;
}

// Tiles are for what steps leave to each other.
TEST(FusionTest, StepsThatShareNothingTakeAWholeSliceEach) {
  const Schedule schedule = Make(R"(mesh []
func f(%a: f32[4096,64] {_,_}, %b: f32[4096,64] {_,_}) {
  %c = exp %a : f32[4096,64] {_,_}
  %d = exp %b : f32[4096,64] {_,_}
  return c=%c, d=%d
})",
                                 2, {});
  const Instruction& group = schedule.instructions[0];
  EXPECT_EQ(group.steps.size(), 2u);
  EXPECT_EQ(group.tile, LongestSlice(group));
}

// The rows of a matrix that is multiplied by a vector are long, and each is read once.
TEST(FusionTest, WhatOnlyGoesByDoesNotShortenTiles) {
  const Schedule schedule = Make(R"(mesh []
func f(%x: f32[1,48,32] {_,_,_}, %q: i8[1024,48,32] {_,_,_}, %scale: f16[1024,48] {_,_}, %b: f32[1024] {_}) {
  %y = matmul_q %x, %q, %scale : f32[1,1024] {_,_}
  %z = add %y, %b : f32[1,1024] {_,_}
  return z=%z
})",
                                 2, {});
  const Instruction& group = schedule.instructions[0];
  EXPECT_EQ(group.steps.size(), 2u);
  EXPECT_EQ(group.tile, LongestSlice(group));
}

// A library needs many rows at once: for the result of a product, a worker has a strip as long as its longest slice.
TEST(FusionTest, WhatAProductLeavesToTheGroupHasAStripPerWorker) {
  constexpr std::string_view kText = R"(mesh []
func f(%a: f32[512,256] {_,_}, %w: f32[256,128] {_,_}) {
  %h = matmul %a, %w : f32[512,128] {_,_}
  %s = reduce_sum %h dims=[1] : f32[512] {_}
  return s=%s
})";
  const Schedule schedule = Make(kText, 2, {});
  const Instruction& group = schedule.instructions[0];
  ASSERT_EQ(group.steps.size(), 2u);
  const int64_t longest = LongestSlice(group);
  EXPECT_EQ(longest, 64);
  EXPECT_EQ(TileRows(kText, schedule), (std::map<std::string, int64_t>{{"h", longest}, {"s", 0}}));
}

// A chain of ops, each of which reads the two values before it.
std::string Chain(int links) {
  std::string text = "mesh []\nfunc f(%v0: f32[4096,1024] {_,_}, %v1: f32[4096,1024] {_,_}) {\n";
  for (int i = 2; i < links + 2; ++i)
    text += fmt::format("  %v{} = sub %v{}, %v{} : f32[4096,1024] {{_,_}}\n", i, i - 1, i - 2);
  return text + fmt::format("  return y=%v{}\n}}\n", links + 1);
}

TEST(FusionTest, AChainNeedsNoMemoryButForItsOutput) {
  const auto needs = [](int links, int workers, bool fuse) {
    return Executor::PlanMemory(ParseProgram(Chain(links)), CpuBackend(workers), {.fuse = fuse}).value();
  };
  constexpr int64_t kValue = int64_t{4096} * 1024 * 4, kL1 = 32 << 10;
  for (int workers : {1, 2, 8}) {
    for (int links : {2, 20, 60}) {
      const ExecutorMemory fused = needs(links, workers, true), plain = needs(links, workers, false);
      EXPECT_LE(fused.shared_bytes, kValue) << links;
      EXPECT_LE(fused.total_bytes(), kValue + workers * kL1) << links;
      EXPECT_GE(plain.total_bytes(), (links > 2 ? 2 : 1) * kValue) << links;
    }
  }
}

}  // namespace
}  // namespace meshwork::fusion_test
