// Problems whose elimination takes more entries than allowed: the solution found, and the bound stated for it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "meshwork/spmd/solver/min_sum.h"
#include "spmd/solver/random_problems.h"

namespace meshwork::wide_problems_test {
namespace {

constexpr double kRounded = 1e-9;

TEST(WideProblemsTest, TheLeastCostIsBetweenBoundAndCost) {
  std::mt19937 random(1);
  int num_found = 0, num_proven = 0, num_possible = 0, num_started = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    MinSum problem = RandomProblem(random, {.max_variables = 8, .max_tables = 14});
    // Then bounds are near the least cost, so that branches are searched.
    if (trial % 2 == 0) problem.AddTable({}, {100});
    const double least = LeastCost(problem);
    MinSumOptions options{.max_entries = 1 << (random() % 12)};
    if (random() % 2 == 0) options.start = RandomAssignment(random, problem);
    const MinSumResult result = Minimize(problem, options);
    ASSERT_EQ(result.cost, problem.CostOf(result.assignment)) << trial;
    ASSERT_GE(result.cost, least * (1 - kRounded)) << trial;
    ASSERT_LE(result.lower_bound, least * (1 + kRounded)) << trial;
    ASSERT_LE(result.lower_bound, result.cost) << trial;
    ASSERT_EQ(result.is_optimal, result.cost <= result.lower_bound * (1 + kRounded)) << trial;
    if (!options.start.empty()) {
      ASSERT_LE(result.cost, problem.CostOf(options.start)) << trial;
      num_started += result.cost < problem.CostOf(options.start);
    }
    num_possible += least < kInf;
    num_found += least < kInf && result.cost <= least * (1 + kRounded);
    num_proven += least < kInf && result.is_optimal;
  }
  // Most solutions are found nevertheless.
  EXPECT_GT(num_found, num_possible * 8 / 10);
  EXPECT_GT(num_proven, num_possible / 2);
  EXPECT_LT(num_proven, num_found);
  EXPECT_GT(num_started, 300);
}

TEST(WideProblemsTest, AGridIsSolvedNearlyWithAHundredthOfTheEntries) {
  for (unsigned seed : {1, 2, 3}) {
    const MinSum problem = RandomGrid(10, 10, 3, seed);
    const MinSumResult exact = Minimize(problem);
    ASSERT_TRUE(exact.is_optimal);
    const MinSumResult result = Minimize(problem, {.max_entries = 200'000});
    EXPECT_LE(result.cost, exact.cost * 1.01);
    EXPECT_GE(result.lower_bound, exact.cost * 0.9);
    EXPECT_LE(result.lower_bound, exact.cost * (1 + kRounded));
  }
}

// Far too wide for any exact method: message passing proves the solution.
TEST(WideProblemsTest, AGridWithStrongPreferencesIsProven) {
  std::mt19937 random(4);
  MinSum problem;
  constexpr int kSide = 25;
  for (int i = 0; i < kSide * kSide; ++i) {
    problem.AddVariable(4);
    std::vector<double> own(4);
    for (double& cost : own) cost = random() % 1000;
    problem.AddTable({i}, own);
    const std::vector<double> apart = {0,   150, 150, 150, 150, 0,   150, 150,
                                       150, 150, 0,   150, 150, 150, 150, 0};
    if (i % kSide > 0) problem.AddTable({i - 1, i}, apart);
    if (i >= kSide) problem.AddTable({i - kSide, i}, apart);
  }
  const MinSumResult result = Minimize(problem);
  EXPECT_TRUE(result.is_optimal);
  EXPECT_LT(result.cost, kInf);
}

// Six variables in tables with each other, six times in a row: messages leave 2 % open, which branches close.
TEST(WideProblemsTest, BranchesProveWhatMessagesLeaveOpen) {
  for (unsigned seed : {2, 3}) {
    std::mt19937 random(seed);
    MinSum problem;
    constexpr int kStates = 10, kMeet = 6, kTimes = 6;
    const auto add = [&](std::vector<int> variables, unsigned most) {
      std::vector<double> costs(variables.size() == 1 ? kStates : kStates * kStates);
      for (double& cost : costs) cost = random() % most;
      problem.AddTable(std::move(variables), std::move(costs));
    };
    for (int v = 0; v < kMeet * kTimes; ++v) {
      problem.AddVariable(kStates);
      add({v}, 400);
      for (int u = v - v % kMeet; u < v; ++u) add({u, v}, 100);
      if (v >= kMeet) add({v - kMeet, v}, 100);
    }
    EXPECT_TRUE(Minimize(problem, {.max_entries = 100'000'000}).is_optimal);
  }
}

// The given start is used, and returned if no better solution is found.
TEST(WideProblemsTest, TheStartIsKeptIfItIsTheBest) {
  const MinSum problem = RandomGrid(9, 9, 3, 5);
  MinSumOptions options{.max_entries = 20'000};
  options.start = Minimize(problem).assignment;
  const MinSumResult result = Minimize(problem, options);
  EXPECT_EQ(result.assignment, options.start);
}

// Colouring a map: a random colouring has many neighbours of one colour.
TEST(WideProblemsTest, LeavesWhatMayNotBe) {
  std::mt19937 random(6);
  MinSum problem;
  constexpr int kSide = 14;
  std::vector<double> differ(25, 0);
  for (int s = 0; s < 5; ++s) differ[s * 6] = kInf;
  for (int i = 0; i < kSide * kSide; ++i) {
    problem.AddVariable(5);
    problem.AddTable({i}, {0, 1, 2, 3, 4});
    if (i % kSide > 0) problem.AddTable({i - 1, i}, differ);
    if (i >= kSide) problem.AddTable({i - kSide, i}, differ);
    if (i % kSide > 0 && i >= kSide) problem.AddTable({i - kSide - 1, i}, differ);
  }
  MinSumOptions options{.max_entries = 300'000};
  options.start = RandomAssignment(random, problem);
  ASSERT_EQ(problem.CostOf(options.start), kInf);
  const MinSumResult result = Minimize(problem, options);
  // Three colours do.
  EXPECT_LE(result.cost, kSide * kSide * 1.1);
  EXPECT_GE(result.cost, result.lower_bound);
}

TEST(WideProblemsTest, IsTheSameEachTime) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 5; ++trial) {
    const MinSum problem =
        RandomProblem(random, {.max_variables = 60, .max_states = 5, .max_tables = 200, .max_rank = 3});
    const MinSumResult first = Minimize(problem, {.max_entries = 100'000});
    const MinSumResult second = Minimize(problem, {.max_entries = 100'000});
    EXPECT_EQ(first.assignment, second.assignment);
    EXPECT_EQ(first.cost, second.cost);
    EXPECT_EQ(first.lower_bound, second.lower_bound);
  }
}

// Each variable in a table with each other one.
TEST(WideProblemsTest, TakesManyVariablesThatAllMeet) {
  std::mt19937 random(8);
  MinSum problem;
  for (int v = 0; v < 80; ++v) {
    problem.AddVariable(3);
    for (int u = 0; u < v; ++u) {
      std::vector<double> costs(9);
      for (double& cost : costs) cost = random() % 100;
      problem.AddTable({u, v}, costs);
    }
  }
  const MinSumResult result = Minimize(problem, {.max_entries = 300'000});
  EXPECT_GT(result.lower_bound, 0);
  // The average is 49.5 per table.
  EXPECT_LT(result.cost, 80 * 79 / 2 * 45);
}

}  // namespace
}  // namespace meshwork::wide_problems_test
