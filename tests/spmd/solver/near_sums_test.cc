#include "meshwork/spmd/solver/near_sums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <vector>

#include "spmd/solver/random_problems.h"

namespace meshwork::near_sums_test {
namespace {

constexpr double kSlackOfNear = 1e-9;
constexpr double kManyEntries = 1e9;

// A problem, the usual states of its variables, the variables that change, and their states per change.
struct RandomChanges {
  MinSum problem;
  StateLists usual;
  std::vector<int> variables;
  std::vector<StateLists> changes;
};

// Variables of one state do not change. Each state of the changing ones is usual, or of one change, or unused.
RandomChanges MakeChanges(std::mt19937& random, int num_changes, int most_changing) {
  RandomChanges made{.problem = RandomProblem(random, {}), .changes = std::vector<StateLists>(num_changes)};
  for (int v = 0; v < made.problem.num_variables(); ++v) {
    const int states = made.problem.states(v);
    made.usual.emplace_back(states);
    std::iota(made.usual.back().begin(), made.usual.back().end(), 0);
    if (states == 1 || random() % 2 == 0 || std::ssize(made.variables) == most_changing) continue;
    made.variables.push_back(v);
    made.usual.back() = {0};
    for (StateLists& change : made.changes) change.emplace_back();
    for (int s = 1; s < states; ++s) {
      const auto kind = static_cast<int>(random() % static_cast<unsigned>(num_changes + 2));
      if (kind == num_changes) made.usual.back().push_back(s);
      else if (kind < num_changes) made.changes[kind].back().push_back(s);
    }
    if (std::ssize(made.usual.back()) == states) {
      made.changes[0].back().push_back(states - 1);
      made.usual.back().pop_back();
    }
  }
  return made;
}

// By trying all assignments.
double LeastWithin(const MinSum& problem, const StateLists& may) {
  MinSum part = problem;
  for (int v = 0; v < problem.num_variables(); ++v) {
    std::vector<double> costs(problem.states(v), kInf);
    for (int s : may[v]) costs[s] = 0;
    part.AddTable({v}, std::move(costs));
  }
  return LeastCost(part);
}

StateLists With(const RandomChanges& made, size_t change) {
  StateLists may = made.usual;
  for (size_t i = 0; i < made.variables.size(); ++i) may[made.variables[i]] = made.changes[change][i];
  return may;
}

TEST(NearSumsTest, OfSmallProblemsAreExact) {
  std::mt19937 random(1);
  int finite = 0, negative = 0, infinite = 0;
  for (int trial = 0; trial < 1500; ++trial) {
    const RandomChanges made = MakeChanges(random, 1 + trial % 4, 4);
    if (made.variables.empty()) continue;
    const double usual = LeastWithin(made.problem, made.usual);
    if (usual == kInf) continue;
    const std::vector<double> more =
        NearSums(made.problem, made.usual).MoreWith(made.variables, made.changes, 100, kManyEntries);
    ASSERT_EQ(more.size(), made.changes.size());
    for (size_t c = 0; c < more.size(); ++c) {
      const double least = LeastWithin(made.problem, With(made, c));
      if (least == kInf) {
        ASSERT_EQ(more[c], kInf) << trial;
        ++infinite;
        continue;
      }
      ASSERT_NEAR(more[c], least - usual, kSlackOfNear * (1 + usual + least)) << trial;
      ++finite;
      negative += more[c] < 0;
    }
  }
  EXPECT_GT(finite, 500);
  EXPECT_GT(negative, 100);
  EXPECT_GT(infinite, 50);
}

// In a chain, variables that are not near the change keep their first state, as if they had no other.
TEST(NearSumsTest, WhatIsFarStaysAsItIs) {
  const MinSum chain = RandomChain({.length = 9, .states = 3, .seed = 3});
  StateLists usual(9, {0, 1, 2});
  usual[4] = {0};
  const std::vector<StateLists> changes = {{{1}}, {{2}}};
  for (const size_t near : {size_t{1}, size_t{2}, size_t{3}, size_t{4}, size_t{8}}) {
    const std::vector<double> more =
        NearSums(chain, usual).MoreWith(std::vector{4}, changes, near, kManyEntries);
    StateLists may = usual;
    const int reach = near <= 2 ? 1 : near <= 4 ? 2 : 4;  // both ways
    for (int v = 0; v < 9; ++v)
      if (std::abs(v - 4) > reach) may[v] = {0};
    const double before = LeastWithin(chain, may);
    for (size_t c = 0; c < changes.size(); ++c) {
      may[4] = changes[c][0];
      EXPECT_NEAR(more[c], LeastWithin(chain, may) - before, kSlackOfNear) << near;
    }
  }
}

// A far variable does not keep its first state if another one is always better.
TEST(NearSumsTest, WhatIsFarHasNoStateThatIsNeverBest) {
  MinSum chain;
  const int x = chain.AddVariable(2), y = chain.AddVariable(2), z = chain.AddVariable(2);
  chain.AddTable({x, y}, {0, 9, 3, 0});
  chain.AddTable({y, z}, {1, 0, 5, 0});
  EXPECT_THAT(NearSums(chain, {{0}, {0, 1}, {0, 1}}).MoreWith(std::vector{x}, {{{1}}}, 1, kManyEntries),
              ::testing::ElementsAre(0));
}

// Nothing behind a held variable changes.
TEST(NearSumsTest, WaysEndAtWhatIsHeld) {
  const MinSum chain = RandomChain({.length = 7, .states = 3, .seed = 4});
  StateLists usual(7, {0, 1, 2});
  usual[3] = {0};
  usual[5] = {1, 0};
  StateLists may = usual;
  may[6] = {0};
  const std::vector<double> more =
      NearSums(chain, usual).MoreWith(std::vector{3}, {{{1}}, {{2}}}, 100, kManyEntries);
  const double before = LeastWithin(chain, may);
  for (int c : {1, 2}) {
    may[3] = {c};
    EXPECT_NEAR(more[c - 1], LeastWithin(chain, may) - before, kSlackOfNear);
  }
}

TEST(NearSumsTest, SaysNothingWhereItWouldTakeTooMuch) {
  const MinSum grid = RandomGrid(5, 5, 3, 1);
  StateLists usual(25, {0, 1, 2});
  usual[12] = {0};
  const NearSums sums(grid, usual);
  EXPECT_EQ(sums.MoreWith(std::vector{12}, {{{1}}, {{2}}}, 100, 10), (std::vector<double>{kInf, kInf}));
  EXPECT_LT(sums.MoreWith(std::vector{12}, {{{1}}, {{2}}}, 100, kManyEntries)[0], kInf);
}

// If the elimination ends early, its sum so far is no result either.
TEST(NearSumsTest, SaysNothingOfAnOrderThatEndsEarly) {
  MinSum triangle;
  const int x = triangle.AddVariable(2), y = triangle.AddVariable(3), z = triangle.AddVariable(3);
  triangle.AddTable({x, y}, {0, 0, 0, 0, 1, 2});
  triangle.AddTable({y, z}, {0, 5, 5, 5, 0, 5, 5, 5, 0});
  triangle.AddTable({x, z}, {0, 0, 0, 0, 1, 2});
  const NearSums sums(triangle, {{0}, {0, 1, 2}, {0, 1, 2}});
  const std::vector<StateLists> changes(10, {{1}});
  EXPECT_EQ(sums.MoreWith(std::vector{x}, changes, 100, kManyEntries), std::vector<double>(10, 0));
  EXPECT_EQ(sums.MoreWith(std::vector{x}, changes, 100, 10), std::vector<double>(10, kInf));
}

}  // namespace
}  // namespace meshwork::near_sums_test
