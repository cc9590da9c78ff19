#include "meshwork/runtime/cpu/schedule.h"

#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/cpu/placement.h"
#include "runtime/plan/schedules.h"

namespace meshwork::schedule_test {
namespace {

using ::testing::HasSubstr;

// ---- AssignWork.

TEST(ScheduleTest, EveryUnitIsDoneOnce) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const int workers = 1 + static_cast<int>(random() % 9);
    std::vector<WorkItem> items;
    for (size_t i = 0; i < 1 + random() % 6; ++i) {
      const int64_t multiple = int64_t{1} << random() % 5;
      items.push_back({static_cast<int>(random() % workers), static_cast<int64_t>(random() % 1000),
                       1 + static_cast<double>(random() % 100000) / 7, multiple});
    }
    const std::vector<std::vector<WorkSlice>> slices = AssignWork(items, workers);
    ASSERT_EQ(slices.size(), static_cast<size_t>(workers));
    std::vector<int64_t> done(items.size(), 0);  // slices come in order, so each starts where the last ended
    for (const auto& mine : slices) {
      for (const WorkSlice& slice : mine) {
        EXPECT_LT(slice.begin, slice.end);
        EXPECT_EQ(slice.begin, done[slice.item]);
        EXPECT_TRUE(slice.end % items[slice.item].multiple == 0 || slice.end == items[slice.item].units);
        done[slice.item] = slice.end;
      }
    }
    for (size_t i = 0; i < items.size(); ++i) EXPECT_EQ(done[i], items[i].units);
  }
}

TEST(ScheduleTest, CutsOnlyWhatIsWorthIt) {
  auto used_workers = [](const std::vector<WorkItem>& items) {
    int used = 0;
    for (const auto& mine : AssignWork(items, 4)) used += !mine.empty();
    return used;
  };
  EXPECT_EQ(used_workers({{0, 1000, 1e6, 16}}), 4);
  EXPECT_EQ(used_workers({{0, 1000, 100, 16}}), 1) << "too little work";
  EXPECT_EQ(used_workers({{0, 1, 1e6, 1}}), 1) << "one unit";
  EXPECT_EQ(used_workers({{0, 100, 1e6, 1}, {1, 100, 1e6, 1}}), 4);
  const std::vector<WorkItem> balanced = {
      {0, 100, 1e6, 1}, {1, 100, 1e6, 1}, {2, 100, 1e6, 1}, {3, 100, 1e6, 1}};
  for (const auto& mine : AssignWork(balanced, 4)) EXPECT_EQ(mine.size(), 1u) << "owners keep whole items";
}

// ---- Instructions and barriers.

constexpr std::string_view kStep = R"(mesh [batch=4]
func step(%x: f32[3,2] of f32[10,2] {batch,_}, var %w: f32[2,2] {_,_}) {
  %xm = mask_padding %x dims=[0] op=sum : f32[3,2] of f32[10,2] {batch,_}
  %y = matmul %xm, %w : f32[3,2] of f32[10,2] {batch,_}
  %n = neg %y : f32[3,2] of f32[10,2] {batch,_}
  %g = matmul %xm, %n transpose_a=true : f32[2,2] of f32[2,2] {_,_ | sum:batch}
  %G = all_reduce %g axes=(batch) op=sum : f32[2,2] of f32[2,2] {_,_}
  %w1 = sub %w, %G : f32[2,2] of f32[2,2] {_,_}
  update %w = %w1
  return y=%n
})";

TEST(ScheduleTest, AStepIsAListOfInstructions) {
  // The last block is short, so the input is packed. No worker waits before the all_reduce: each computes the rows
  // of its own devices. Worker 0 computes the values that are the same on all devices, once.
  EXPECT_EQ(Print(kStep, Make(kStep, 2)),
            "pack | 0:0-6 1:0-6 | 2:0-6 3:0-2\n"
            "mask_padding | 0-3 3-6 | 6-9 9-12\n"
            "matmul | 0-3 3-6 | 6-9 9-12\n"
            "neg | 0-6 6-12 | 12-18 18-24\n"
            "matmul | 0-2 2-4 | 4-6 6-8\n"
            "---\n"
            "all_reduce | 0:0-4 |\n"
            "sub | 0-4 |\n"
            "unpack | 0:0-6 1:0-6 | 2:0-6 3:0-2\n");
}

TEST(ScheduleTest, DevicesAreCoalescedAndOpsFused) {
  // The rows of all devices are one product of 12 rows, too small to be cut, on the worker with most of the rows.
  // The gradients are summed as one product, and sub overwrites them in the variable row by row.
  EXPECT_EQ(Print(kStep, Make(kStep, 1, {})),
            "pack | 0:0-6 1:0-6 2:0-6 3:0-2\n"
            "mask_padding | 0-3 3-6 6-9 9-12\n"
            "matmul+neg | 0-12\n"
            "matmul+all_reduce+sub | 0-2\n"
            "unpack | 0:0-6 1:0-6 2:0-6 3:0-2\n");
  EXPECT_EQ(Make(kStep, 1, {}).num_barriers, 0);
}

TEST(ScheduleTest, OneWorkerNeedsNoBarriersAndSharesNothing) {
  const Schedule schedule = Make(kStep, 1);
  EXPECT_EQ(schedule.num_barriers, 0);
  EXPECT_EQ(schedule.shared_bytes, 0);
  // The peak is at the second matmul: xm, n (in the place of y) and g, 4 blocks of 24, 24 and 16 bytes, rounded up
  // to cache lines.
  EXPECT_EQ(schedule.private_bytes[0], 128 + 128 + 64);
}

TEST(ScheduleTest, LargeValuesAreCutBetweenWorkers) {
  constexpr std::string_view kText = R"(mesh [batch=2]
func step(%x: f32[1,50000] of f32[2,50000] {batch,_}, var %w: f32[1,50000] {_,_}) {
  %g = neg %x : f32[1,50000] of f32[1,50000] {_,_ | sum:batch}
  %G = all_reduce %g axes=(batch) op=sum : f32[1,50000] of f32[1,50000] {_,_}
  %w1 = sub %w, %G : f32[1,50000] of f32[1,50000] {_,_}
  update %w = %w1
})";
  EXPECT_EQ(Print(kText, Make(kText, 2)),
            "neg | 0-50000 | 50000-100000\n"
            "---\n"
            "all_reduce | 0:0-25008 | 0:25008-50000\n"
            "---\n"
            "sub | 0-25008 | 25008-50000\n");
}

// Rows stay on the worker that computed them: no worker waits for a small product in the middle.
TEST(ScheduleTest, RowsStayWithTheirWorker) {
  constexpr std::string_view kText = R"(mesh [x=2]
func step(%a: f32[256,400] of f32[512,400] {x,_}, var %w: f32[400,300] {_,_}, var %u: f32[300,2] {_,_},
          var %b: f32[300] {_}) {
  %h = matmul %a, %w : f32[256,300] of f32[512,300] {x,_}
  %i = add %h, %b : f32[256,300] of f32[512,300] {x,_}
  %j = relu %i : f32[256,300] of f32[512,300] {x,_}
  %l = matmul %j, %u : f32[256,2] of f32[512,2] {x,_}
  %m = reduce_max %l dims=[1] keep_dims=true : f32[256,1] of f32[512,1] {x,_}
  %n = sub %l, %m : f32[256,2] of f32[512,2] {x,_}
  %e = exp %n : f32[256,2] of f32[512,2] {x,_}
  return e=%e
})";
  const Schedule schedule = Make(kText, 2, {});
  EXPECT_EQ(Print(kText, schedule),
            "matmul+add+relu | 0-64 64-128 128-192 192-256 | 256-320 320-384 384-448 448-512\n"
            "matmul+reduce_max+sub+exp | 0-256 | 256-512\n"
            "unpack | 0:0-512 | 1:0-512\n");
  EXPECT_EQ(schedule.num_barriers, 0);
  // Two instructions read the hidden rows. The values from l to e share one storage, and the maxima are a tile.
  EXPECT_EQ(schedule.shared_bytes, 512 * 300 * 4 + 512 * 2 * 4);
}

// The last of 4 devices has none of the 6 rows. Its term of the sum is the result of the mask.
TEST(ScheduleTest, EmptyBlocksAreNotComputed) {
  constexpr std::string_view kText = R"(mesh [x=4]
func step(%a: f32[2,8000] of f32[6,8000] {x,_}, %w: f32[8000,100] {_,_}) {
  %e = exp %a : f32[2,8000] of f32[6,8000] {x,_}
  %m = mask_padding %e dims=[0] op=sum : f32[2,8000] of f32[6,8000] {x,_}
  %s = reduce_sum %m dims=[0] : f32[8000] {_ | sum:x}
  %t = all_reduce %s axes=(x) op=sum : f32[8000] {_}
  %p = matmul %a, %w : f32[2,100] of f32[6,100] {x,_}
  return t=%t, p=%p
})";
  EXPECT_EQ(Print(kText, Make(kText, 2, {})),
            "pack | 0:0-16000 1:0-8000 | 1:8000-16000 2:0-16000\n"
            "---\n"
            "exp | 0-24000 | 24000-48000\n"
            "mask_padding | 0-2 2-3 | 3-4 4-6 6-8\n"
            "---\n"
            "reduce_sum+all_reduce | 0-4000 | 4000-8000\n"
            "matmul | 0-8 |\n"  // a product this small is not cut
            "---\n"
            "unpack | 0:0-8000 |\n"
            "unpack | 0:0-200 1:0-200 | 2:0-200\n");
}

// The mask is a constant; its reshape is not, because the constants are large enough by then. The reshape
// copies the mask, including the padding of the device without rows.
TEST(ScheduleTest, PaddingThatIsSummedIsCopied) {
  std::string text = "mesh [x=4]\nfunc step(%a: f32[1] of f32[3] {x}) {\n";
  for (int i = 0; i < 14; ++i)
    text +=
        fmt::format("%c{0} = constant value={0} shape=[1,4096] : f32[1,4096] of f32[3,4096] {{x,_}}\n", i);
  text += R"(%k = constant value=15 shape=[1,4096] : f32[1,4096] of f32[3,4096] {x,_}
%m = mask_padding %k dims=[0] op=sum : f32[1,4096] of f32[3,4096] {x,_}
%r = reshape %m shape=[1,64,64] : f32[1,64,64] of f32[3,64,64] {x,_,_}
%s = reduce_sum %r dims=[0,1,2] : f32[] {| sum:x}
%t = all_reduce %s axes=(x) op=sum : f32[] {}
return t=%t
})";
  EXPECT_EQ(Print(text, Make(text, 2, {})),
            "pack | 0:0-1 1:0-1 | 2:0-1\n"
            "reshape | 0-8192 | 8192-16384\n"
            "---\n"
            "reduce_sum+all_reduce | 0-1 |\n"
            "unpack | 0:0-1 |\n");
}

TEST(ScheduleTest, AViewIsNoInstruction) {
  constexpr std::string_view kText = R"(mesh [x=2]
func step(%a: f32[10,4] of f32[20,4] {x,_}, var %w: f32[4,2] {_,_}) {
  %v = reshape %w shape=[8] : f32[8] {_}
  %n = neg %v : f32[8] {_}
  %u = reshape %n shape=[4,2] : f32[4,2] {_,_}
  %p = matmul %a, %u : f32[10,2] of f32[20,2] {x,_}
  %q = reshape %p shape=[10,2,1] : f32[10,2,1] of f32[20,2,1] {x,_,_}
  %e = exp %q : f32[10,2,1] of f32[20,2,1] {x,_,_}
  update %w = %u
  return e=%e, w=%v
})";
  // The first reshape is of a variable that is also an output, so it copies.
  EXPECT_EQ(Print(kText, Make(kText, 2, {})),
            "reshape+neg | 0-8 |\n"
            "matmul+exp | 0-20 |\n"
            "---\n"
            "unpack | 0:0-20 | 1:0-20\n"
            "unpack | 0:0-8 |\n");
}

TEST(ScheduleTest, VariablesAreWrittenInPlaceWhereNobodyNeedsTheOldValue) {
  auto assigns = [](const Schedule& schedule) {
    int n = 0;
    for (const Instruction& i : schedule.instructions) n += i.kind == Instruction::Kind::kAssign;
    return n;
  };
  auto text = [](std::string_view body) {
    return fmt::format(
        "mesh [x=2]\nfunc step(var %a: f32[2] of f32[4] {{x}}, var %b: f32[2] of f32[4] {{x}}) {{\n"
        "%n = neg %a : f32[2] of f32[4] {{x}}\n{}\n}}",
        body);
  };
  EXPECT_EQ(assigns(Make(text("update %a = %n"), 2)), 0);
  EXPECT_EQ(assigns(Make(text("update %b = %n"), 2)), 0);
  EXPECT_EQ(assigns(Make(text("update %a = %n return y=%a"), 2)), 1);
  EXPECT_EQ(assigns(Make(text("update %a = %n update %b = %n"), 2)), 1);
  EXPECT_EQ(assigns(Make(text("update %a = %b update %b = %a"), 2)), 4) << "two set aside, two written";
  EXPECT_EQ(assigns(Make(text("%m = add %a, %n : f32[2] of f32[4] {x} update %a = %n return y=%m"), 2)), 1);
}

// ---- CheckSchedule detects every kind of damage.

std::string DamageOf(const Schedule& schedule) { return std::string(MessageOf(CheckSchedule(schedule))); }

TEST(ScheduleTest, EveryBarrierIsNeeded) {
  for (int workers : {2, 3, 4}) {
    for (bool share : {true, false}) {
      const Schedule good = Make(kStep, workers, {.share = share});
      EXPECT_EQ(DamageOf(good), "");
      EXPECT_GT(good.num_barriers, 0);
      for (size_t i = 0; i < good.instructions.size(); ++i) {
        if (!good.instructions[i].barrier) continue;
        Schedule bad = good;
        bad.instructions[i].barrier = false;
        EXPECT_THAT(DamageOf(bad), HasSubstr("and no barrier is between."));
      }
    }
  }
}

TEST(ScheduleTest, NamesTheRace) {
  Schedule bad = Make(kStep, 2);
  for (Instruction& instruction : bad.instructions) instruction.barrier = false;
  EXPECT_THAT(DamageOf(bad),
              ::testing::MatchesRegex(
                  "schedule: worker 1 writes storage [0-9]+ \\(shared arena 0 at [0-9]+, 64 bytes\\) in "
                  "instruction 4, worker 0 reads it in instruction 5, and no barrier is between\\."));
}

// CheckSchedule detects when a storage is moved onto another one that is in use at the same time.
TEST(ScheduleTest, StoragesInUseTogetherMayNotOverlap) {
  const Schedule good = Make(kStep, 2);
  int found = 0, moved = 0;
  for (size_t a = 0; a < good.storages.size(); ++a) {
    for (size_t b = 0; b < good.storages.size(); ++b) {
      const Place &from = good.storages[a].place, &to = good.storages[b].place;
      const bool arena = to.kind == Place::Kind::kPrivate || to.kind == Place::Kind::kShared;
      if (a == b || !arena || from.kind != to.kind || from.index != to.index || from.offset == to.offset)
        continue;
      Schedule bad = good;
      bad.storages[a].place = to;
      ++moved;
      const std::string damage = DamageOf(bad);
      found += damage.find("overlap while both are in use") != std::string::npos;
    }
  }
  // In the other cases one storage's last use is before the other's first.
  EXPECT_GT(found, 0);
  EXPECT_LT(found, moved);
}

TEST(ScheduleTest, FindsStoragesOutOfPlace) {
  const Schedule good = Make(kStep, 2);
  for (size_t b = 0; b < good.storages.size(); ++b) {
    if (good.storages[b].place.kind != Place::Kind::kPrivate) continue;
    Schedule bad = good;
    bad.storages[b].place.index = 1 - bad.storages[b].place.index;
    EXPECT_THAT(DamageOf(bad), HasSubstr("is touched by another worker."));
    bad = good;
    bad.storages[b].place.offset = bad.private_bytes[bad.storages[b].place.index];
    EXPECT_THAT(DamageOf(bad), HasSubstr("reaches out of"));
    bad = good;
    bad.storages[b].place = {};
    EXPECT_THAT(DamageOf(bad), HasSubstr("nowhere"));
  }
}

// Memory of the shared arena is reused only in a later epoch, even for values that are never live together.
TEST(ScheduleTest, SharedMemoryIsReusedOnlyAfterABarrier) {
  constexpr std::string_view kText = R"(mesh [x=2]
func step(%i: f32[1] of f32[2] {x}) {
  %a = all_gather %i axes=(x) dim=0 : f32[2] of f32[2] {_}
  %b = shard_slice %a axes=(x) dim=0 : f32[1] of f32[2] {x}
  %c = all_gather %b axes=(x) dim=0 : f32[2] of f32[2] {_}
  %d = shard_slice %c axes=(x) dim=0 : f32[1] of f32[2] {x}
  %e = all_gather %d axes=(x) dim=0 : f32[2] of f32[2] {_}
  return e=%e
})";
  const Schedule schedule = Make(kText, 2);
  EXPECT_EQ(Print(kText, schedule),
            "all_gather | 0:0-1 1:0-1 |\n"
            "---\n"
            "shard_slice | 0-1 | 1-2\n"
            "---\n"
            "all_gather | 0:0-1 1:0-1 |\n"
            "---\n"
            "shard_slice | 0-1 | 1-2\n"
            "---\n"
            "all_gather | 0:0-1 1:0-1 |\n"
            "unpack | 0:0-2 |\n");
  // a: epochs 0-1, b: 1-2, c: 2-3, d: 3-4, e (worker 0 alone): private.
  EXPECT_EQ(schedule.shared_bytes, 64 * 2);
}

}  // namespace
}  // namespace meshwork::schedule_test
