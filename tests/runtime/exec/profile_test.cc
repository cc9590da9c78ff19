#include "meshwork/runtime/exec/profile.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "runtime/plan/programs.h"

namespace meshwork::profile_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Two workers, two steps of 5 ms: 20 ms of worker time.
Profile Synthetic() {
  return {.workers = 2,
          .steps = 2,
          .wall_ns = 10'000'000,
          .wait_ns = 1'000'000,
          .rows = {{.op = "pack",
                    .where = "input \"x\"",
                    .calls = 2,
                    .ns = 250'000,
                    .max_ns = 250'000,
                    .bytes = 1'000'000},
                   {.op = "matmul",
                    .where = "mlp.cc:23",
                    .result = "f32[128,700]",
                    .calls = 2,
                    .ns = 8'000'000,
                    .max_ns = 5'000'000,
                    .flops = 2.5e8},
                   {.op = "all_reduce",
                    .where = "mlp.cc:23",
                    .result = "6 values",
                    .cause = "the first reason; the second reason",
                    .calls = 2,
                    .ns = 1'500'000,
                    .max_ns = 800'000,
                    .bytes = 4'000'000},
                   {.op = "matmul",
                    .where = "mlp.cc:31",
                    .result = "f32[128,10]",
                    .calls = 2,
                    .ns = 8'250'000,
                    .max_ns = 4'250'000,
                    .flops = 1e8},
                   {.op = "iota", .calls = 2}}};
}

TEST(ProfileTest, TheTableIsSortedByTime) {
  EXPECT_EQ(Synthetic().ToString(),
            R"(op          where          result        calls  total ms    share  max ms          rate
matmul      mlp.cc:31      f32[128,10]       2     8.250   41.2 %   4.250  23.5 GFLOP/s
matmul      mlp.cc:23      f32[128,700]      2     8.000   40.0 %   5.000  50.0 GFLOP/s
all_reduce  mlp.cc:23      6 values          2     1.500    7.5 %   0.800      5.0 GB/s
            the first reason
            the second reason
pack        input "x"                        2     0.250    1.2 %   0.250      4.0 GB/s
iota                                         2     0.000    0.0 %   0.000
waiting     barriers                               1.000    5.0 %
other       start and end                          1.000    5.0 %
total       2 workers                             20.000  100.0 %
2 steps, 5.000 ms each
)");
}

TEST(ProfileTest, OpsAreRolledUpByName) {
  EXPECT_EQ(Synthetic().ByOp().ToString(),
            R"(op          where           result  calls  total ms    share  max ms          rate
matmul      2 instructions              4    16.250   81.2 %   9.250  37.8 GFLOP/s
all_reduce  1 instruction               2     1.500    7.5 %   0.800      5.0 GB/s
pack        1 instruction               2     0.250    1.2 %   0.250      4.0 GB/s
iota        1 instruction               2     0.000    0.0 %   0.000
waiting     barriers                          1.000    5.0 %
other       start and end                     1.000    5.0 %
total       2 workers                        20.000  100.0 %
2 steps, 5.000 ms each
)");
}

TEST(ProfileTest, StarvedStepsAreNamed) {
  Profile profile;
  profile.workers = 1;
  profile.steps = 5;
  profile.wall_ns = 5'000'000;
  for (const double seconds : {0.0, 0.00009, 0.002, 0.004, 0.003}) profile.input.Add(seconds);
  EXPECT_THAT(profile.ToString(),
              HasSubstr("\ninput: 3 of 5 steps waited for it, 3.000 ms each; 4.000 ms before step 4\n"));
  profile.input = {};
  EXPECT_THAT(profile.ToString(), Not(HasSubstr("input")));
}

TEST(ProfileTest, NothingProfiledIsSaidSo) { EXPECT_EQ(Profile().ToString(), "no steps were profiled\n"); }

// a: [6,3] over x (2 rows each), w: [3,4]; y = a w, g = aᵀ a summed over x.
constexpr std::string_view kProgram = R"(mesh [x=3]
func step(%a: f32[2,3] of f32[6,3] {x,_}, %c: f32[5,1] of f32[5,3] {_,x}, var %w: f32[3,4] of f32[3,4] {_,_}) {
  %y = matmul %a, %w : f32[2,4] of f32[6,4] {x,_}
  %g = matmul %a, %a transpose_a=true : f32[3,3] of f32[3,3] {_,_ | sum:x}
  %G = all_reduce %g axes=(x) op=sum : f32[3,3] of f32[3,3] {_,_}
  %h = neg %G : f32[3,3] of f32[3,3] {_,_}
  return y=%y, h=%h, c=%c
})";
const Tensors& ProgramFeeds() {
  static const Tensors feeds = {{"a", Ramp({F32, {6, 3}})}, {"c", Ramp({F32, {5, 3}})}};
  return feeds;
}

struct Counts {
  std::string op;
  int64_t calls;
  double flops;
  int64_t bytes;
  bool operator==(const Counts&) const = default;
};
void PrintTo(const Counts& c, std::ostream* out) {
  *out << fmt::format("{} calls={} flops={} bytes={}", c.op, c.calls, c.flops, c.bytes);
}

std::vector<Counts> CountsOf(const Profile& profile) {
  std::vector<Counts> counts;
  for (const ProfileRow& row : profile.rows)
    counts.push_back({row.op + " " + row.where, row.calls, row.flops, row.bytes});
  return counts;
}

TEST(ProfileTest, CallsAndWorkAreCountedExactly) {
  for (int workers : {1, 2, 3, 8}) {
    CpuBackend backend(workers);
    std::map<std::string, DTensor> state;
    auto executor =
        Executor::Create(ParseProgram(kProgram), backend,
                         {.coalesce = false, .fuse = false, .check_replicas = false, .profile = true}, &state)
            .value();
    Tensors outputs;
    for (int step = 0; step < 3; ++step) ASSERT_TRUE(executor->Run(ProgramFeeds(), &outputs).ok());
    ASSERT_TRUE(executor->Bind(ProgramFeeds(), {{"h", Tensor({F32, {3, 3}})}})->Run().ok());
    const Profile profile = executor->Profile();
    EXPECT_EQ(profile.steps, 4);
    EXPECT_EQ(profile.workers, workers);
    EXPECT_THAT(
        CountsOf(profile),
        ElementsAre(Counts{"pack input \"c\"", 4, 0, 4 * 15 * 4 * 2},
                    Counts{"matmul program:3", 4, 4.0 * 3 * (2 * 2 * 3 * 4), 0},
                    Counts{"matmul program:4", 4, 4.0 * 3 * (2 * 3 * 2 * 3), 0},
                    Counts{"all_reduce program:5", 4, 0, 4 * 9 * 4 * (3 + 1)},  // three read, one written
                    Counts{"neg program:6", 4, 4.0 * 9, 0},                     // once for all devices
                    Counts{"unpack output \"y\"", 3, 0, 3 * 24 * 4 * 2},
                    Counts{"unpack output \"h\"", 4, 0, 4 * 9 * 4 * 2},
                    Counts{"unpack output \"c\"", 3, 0, 3 * 15 * 4 * 2}));
  }
}

TEST(ProfileTest, WhatRunsTogetherIsCountedTogether) {
  CpuBackend backend(2);
  std::map<std::string, DTensor> state;
  auto executor =
      Executor::Create(ParseProgram(kProgram), backend, {.check_replicas = false, .profile = true}, &state)
          .value();
  Tensors outputs;
  ASSERT_TRUE(executor->Run(ProgramFeeds(), &outputs).ok());
  // The sum is computed with the product, and neg handles each row after the product.
  EXPECT_THAT(CountsOf(executor->Profile()),
              ElementsAre(Counts{"pack input \"c\"", 1, 0, 15 * 4 * 2},
                          Counts{"matmul program:3", 1, 3 * (2 * 2 * 3 * 4), 0},
                          Counts{"matmul+all_reduce+neg program:4", 1, 3 * (2 * 3 * 2 * 3) + 9, 0},
                          Counts{"unpack output \"y\"", 1, 0, 24 * 4 * 2},
                          Counts{"unpack output \"h\"", 1, 0, 9 * 4 * 2},
                          Counts{"unpack output \"c\"", 1, 0, 15 * 4 * 2}));
}

TEST(ProfileTest, TimesAddUpToWhatTheWorkersHad) {
  for (int workers : {1, 2, 3, 8}) {
    CpuBackend backend(workers);
    std::map<std::string, DTensor> state;
    auto executor =
        Executor::Create(ParseProgram(kProgram), backend, {.share = false, .profile = true}, &state).value();
    for (int step = 0; step < 20; ++step) ASSERT_TRUE(executor->Run(ProgramFeeds(), nullptr).ok());
    const Profile profile = executor->Profile();
    EXPECT_EQ(profile.total_ns(), workers * profile.wall_ns);
    EXPECT_GT(profile.wall_ns, 0);
    EXPECT_GE(profile.wait_ns, 0);
    EXPECT_GE(profile.other_ns(), 0);
    int64_t sum = profile.wait_ns + profile.other_ns();
    for (const ProfileRow& row : profile.rows) {
      EXPECT_GE(row.max_ns, 0);
      EXPECT_LE(row.max_ns, row.ns);
      EXPECT_LE(row.ns, workers * row.max_ns);
      EXPECT_LE(row.max_ns, profile.wall_ns);
      sum += row.ns;
    }
    EXPECT_EQ(sum, profile.total_ns());
    const Profile by_op = profile.ByOp();
    EXPECT_EQ(by_op.other_ns(), profile.other_ns());
  }
}

TEST(ProfileTest, ClearedProfilesStartAnew) {
  CpuBackend backend(2);
  std::map<std::string, DTensor> state;
  auto executor = Executor::Create(ParseProgram(kProgram), backend, {.profile = true}, &state).value();
  ASSERT_TRUE(executor->Run(ProgramFeeds(), nullptr).ok());
  executor->ClearProfile();
  EXPECT_EQ(executor->Profile().steps, 0);
  EXPECT_EQ(executor->Profile().total_ns(), 0);
  ASSERT_TRUE(executor->Run(ProgramFeeds(), nullptr).ok());
  EXPECT_EQ(executor->Profile().steps, 1);
  EXPECT_EQ(executor->Profile().rows[1].calls, 1);
}

TEST(ProfileTest, IsEmptyUnlessAskedFor) {
  CpuBackend backend(1);
  std::map<std::string, DTensor> state;
  auto executor = Executor::Create(ParseProgram(kProgram), backend, {}, &state).value();
  ASSERT_TRUE(executor->Run(ProgramFeeds(), nullptr).ok());
  executor->ClearProfile();
  EXPECT_EQ(executor->Profile().steps, 0);
  EXPECT_TRUE(executor->Profile().rows.empty());
}

}  // namespace
}  // namespace meshwork::profile_test
