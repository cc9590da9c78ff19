// The least sum of cost tables, against a trial of all assignments, and against known sums.
#include "meshwork/spmd/solver/min_sum.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "spmd/solver/random_problems.h"

namespace meshwork::min_sum_test {
namespace {

using ::testing::ElementsAre;

MATCHER_P(SameCost, cost, "") { return arg == cost || std::abs(arg - cost) <= 1e-9 * cost; }

TEST(MinSumTest, HasTheCostOfItsTables) {
  MinSum problem;
  const int x = problem.AddVariable(2), y = problem.AddVariable(3);
  problem.AddTable({y, x}, {1, 2, 3, 4, 5, 6});
  problem.AddTable({x}, {10, 20});
  problem.AddTable({}, {100});
  EXPECT_EQ(problem.CostOf(std::vector<int>{1, 2}), 6 + 20 + 100);
  EXPECT_EQ(problem.CostOf(std::vector<int>{0, 1}), 3 + 10 + 100);
}

TEST(MinSumTest, MinimizesTheExampleOfTheHeader) {
  MinSum problem;
  const int x = problem.AddVariable(2), y = problem.AddVariable(2);
  problem.AddTable({x}, {0, 3});
  problem.AddTable({x, y}, {5, 6, 0, 1});
  const MinSumResult result = Minimize(problem);
  EXPECT_THAT(result.assignment, ElementsAre(1, 0));
  EXPECT_EQ(result.cost, 3);
  EXPECT_EQ(result.lower_bound, 3);
  EXPECT_TRUE(result.is_optimal);
}

TEST(MinSumTest, OfNothingIsNothing) {
  MinSum problem;
  EXPECT_EQ(Minimize(problem).cost, 0);
  EXPECT_TRUE(Minimize(problem).is_optimal);
  problem.AddTable({}, {7});
  EXPECT_EQ(Minimize(problem).cost, 7);
  problem.AddVariable(4);
  EXPECT_THAT(Minimize(problem).assignment, ElementsAre(0));
}

TEST(MinSumTest, FindsTheLeastOfSmallRandomProblems) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 4000; ++trial) {
    const MinSum problem = RandomProblem(random, {});
    const MinSumResult result = Minimize(problem);
    ASSERT_TRUE(result.is_optimal) << trial;
    ASSERT_THAT(result.cost, SameCost(LeastCost(problem))) << trial;
    ASSERT_EQ(result.cost, problem.CostOf(result.assignment)) << trial;
    ASSERT_EQ(result.lower_bound, result.cost) << trial;
  }
}

TEST(MinSumTest, SaysWhereNothingMayBe) {
  MinSum problem;
  const int x = problem.AddVariable(2), y = problem.AddVariable(2), z = problem.AddVariable(2);
  // Three variables of two states that must differ in pairs.
  for (auto [u, v] : {std::pair(x, y), std::pair(y, z), std::pair(x, z)})
    problem.AddTable({u, v}, {kInf, 0, 0, kInf});
  const MinSumResult result = Minimize(problem);
  EXPECT_EQ(result.cost, kInf);
  EXPECT_EQ(result.lower_bound, kInf);
  EXPECT_TRUE(result.is_optimal);
  EXPECT_EQ(result.assignment.size(), 3);
}

// The first of equally good states is taken.
TEST(MinSumTest, PrefersTheFirstOfEqualStates) {
  std::mt19937 random(2);
  MinSum problem;
  for (int v = 0; v < 40; ++v) problem.AddVariable(4);
  for (int v = 0; v + 2 < 40; ++v) {
    std::vector<double> costs(64, 1);
    // Combinations in which all states are 0, or all are 1, cost 1, as do some others; the rest costs more.
    for (int i = 0; i < 64; ++i)
      if (i % 4 > 1 || i / 4 % 4 > 1 || i / 16 > 1) costs[i] += random() % 2;
    problem.AddTable({v, v + 1, v + 2}, costs);
  }
  EXPECT_THAT(Minimize(problem).assignment, testing::Each(0));
}

// A tenth three times is not three tenths to the last bit.
TEST(MinSumTest, SumsThatDifferByRoundingAreEqual) {
  MinSum problem;
  const int x = problem.AddVariable(2);
  problem.AddTable({x}, {0.1, 0.3});
  for (int i = 0; i < 2; ++i) {
    const int y = problem.AddVariable(2);
    problem.AddTable({x, y}, {0.1, 0.1, 0, 0});
  }
  EXPECT_THAT(Minimize(problem).assignment, ElementsAre(0, 0, 0));
}

// Neighbours differ, at a cost that depends on their states: the chain alternates.
TEST(MinSumTest, AlternatesAlongAChain) {
  MinSum problem;
  constexpr int kLength = 1001;
  for (int v = 0; v < kLength; ++v) {
    problem.AddVariable(3);
    problem.AddTable({v}, {0, 1, 5});
    if (v > 0) problem.AddTable({v, v - 1}, {kInf, 0, 0, 0, kInf, 0, 0, 0, kInf});
  }
  const MinSumResult result = Minimize(problem);
  EXPECT_EQ(result.cost, kLength / 2);
  for (int v = 0; v < kLength; ++v) EXPECT_EQ(result.assignment[v], v % 2);
}

// A cut of a grid: the left column is 0, the right one 1, and edges between different ones cost; one column of edges is
// cheap.
TEST(MinSumTest, CutsAGridWhereThatIsCheap) {
  MinSum problem;
  constexpr int kRows = 12, kColumns = 30, kCheap = 17;
  for (int i = 0; i < kRows * kColumns; ++i) problem.AddVariable(2);
  for (int r = 0; r < kRows; ++r) {
    problem.AddTable({r * kColumns}, {0, kInf});
    problem.AddTable({r * kColumns + kColumns - 1}, {kInf, 0});
    for (int c = 0; c < kColumns; ++c) {
      const double across = c == kCheap ? 1 : 1.5;
      const int at = r * kColumns + c;
      if (c + 1 < kColumns) problem.AddTable({at, at + 1}, {0, across, across, 0});
      if (r + 1 < kRows) problem.AddTable({at, at + kColumns}, {0, 2, 2, 0});
    }
  }
  const MinSumResult result = Minimize(problem);
  EXPECT_TRUE(result.is_optimal);
  EXPECT_EQ(result.cost, kRows);
  for (int i = 0; i < kRows * kColumns; ++i) EXPECT_EQ(result.assignment[i], i % kColumns > kCheap);
}

TEST(MinSumTest, TakesLongChains) {
  const MinSum problem = RandomChain({.length = 5000, .states = 20, .width = 2, .seed = 3});
  const MinSumResult result = Minimize(problem, {.max_entries = 100'000'000});
  EXPECT_TRUE(result.is_optimal);
  // No single variable can be better.
  for (int v = 0; v < 5000; v += 499) {
    std::vector<int> other = result.assignment;
    for (other[v] = 0; other[v] < 20; ++other[v]) EXPECT_GE(problem.CostOf(other), result.cost);
  }
}

// One variable in tables with all others, like a choice that the whole program shares.
TEST(MinSumTest, TakesAVariableThatAllOthersMeet) {
  MinSum problem;
  const int hub = problem.AddVariable(3);
  problem.AddTable({hub}, {0, 100000, 50});
  double least = 0;
  for (int i = 0; i < 3000; ++i) {
    const int v = problem.AddVariable(4);
    problem.AddTable({v, hub}, {2, 9, 5, 3, 9, 4, 2, 9, 5, 9, 1, 9});
    if (i > 0) problem.AddTable({v - 1, v}, {0, 1, 1, 1, 1, 0, 1, 1, 1, 1, 0, 1, 1, 1, 1, 0});
    least += 2;
  }
  const MinSumResult result = Minimize(problem);
  EXPECT_TRUE(result.is_optimal);
  EXPECT_EQ(result.cost, least);
  EXPECT_EQ(result.assignment[hub], 0);
}

}  // namespace
}  // namespace meshwork::min_sum_test
