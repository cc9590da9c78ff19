// The laws of the solver's parts, on random problems.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <vector>

#include "meshwork/spmd/solver/condense.h"
#include "meshwork/spmd/solver/cost_model.h"
#include "meshwork/spmd/solver/elimination.h"
#include "meshwork/spmd/solver/elimination_order.h"
#include "meshwork/spmd/solver/local_search.h"
#include "meshwork/spmd/solver/min_out.h"
#include "meshwork/spmd/solver/reduce.h"
#include "meshwork/spmd/solver/reparametrization.h"
#include "meshwork/spmd/solver/shrink.h"
#include "spmd/solver/random_problems.h"

namespace meshwork::parts_test {
namespace {

constexpr double kSlack = 1e-9;

CostModel ModelOf(const MinSum& problem) { return problem.model(); }

MinSum ProblemOf(const CostModel& model) {
  MinSum problem;
  for (int states : model.states) problem.AddVariable(states);
  for (const CostTable& table : model.tables) problem.AddTable(table.variables, table.costs);
  return problem;
}

// Calls f for each assignment.
template <typename F>
void ForEachAssignment(const std::vector<int>& states, F f) {
  std::vector<int> assignment(states.size(), 0);
  while (true) {
    f(assignment);
    size_t v = 0;
    while (v < states.size() && ++assignment[v] == states[v]) assignment[v++] = 0;
    if (v == states.size()) return;
  }
}

TEST(MinOutTest, IsTheLeastOfTheSum) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 300; ++trial) {
    CostModel model;
    const int num_variables = 1 + static_cast<int>(random() % 6);
    for (int v = 0; v < num_variables; ++v) model.states.push_back(1 + static_cast<int>(random() % 5));
    std::vector<const CostTable*> tables;
    for (int left = 1 + static_cast<int>(random() % 8); left > 0; --left) {
      CostTable table{{0}, {}};
      for (int v = 1; v < num_variables; ++v)
        if (random() % 3 == 0) table.variables.push_back(v);
      std::shuffle(table.variables.begin(), table.variables.end(), random);
      std::vector<double> costs(static_cast<size_t>(Combinations(table.variables, model.states)));
      for (double& cost : costs) cost = random() % 8 == 0 ? kInf : static_cast<int>(random() % 100) - 50;
      table.costs = std::move(costs);
      model.tables.push_back(std::move(table));
    }
    for (const CostTable& table : model.tables) tables.push_back(&table);
    const CostTable least = MinOut(0, tables, model.states);
    ForEachAssignment(model.states, [&](std::vector<int> assignment) {
      if (assignment[0] != 0) return;
      double expected = kInf;
      for (int s = 0; s < model.states[0]; ++s) {
        assignment[0] = s;
        expected = std::min(expected, SumOf(model, assignment));
      }
      ASSERT_EQ(EntryOf(least, model.states, assignment), expected) << trial;
    });
  }
}

TEST(EliminationTest, IsABoundAndAnAssignmentInGroupsOfAnySize) {
  std::mt19937 random(2);
  int num_split = 0;
  for (int trial = 0; trial < 1000; ++trial) {
    const MinSum problem = RandomProblem(random, {});
    const CostModel model = ModelOf(problem);
    const double joint = 1 << (random() % 10), least = LeastCost(problem);
    const Eliminated result = Eliminate(model, OrderForGroups(model, joint), joint);
    ASSERT_LE(result.bound, least * (1 + kSlack)) << trial;
    ASSERT_GE(SumOf(model, result.assignment), least * (1 - kSlack)) << trial;
    if (result.is_exact) {
      ASSERT_GE(result.bound, least * (1 - kSlack)) << trial;
      ASSERT_LE(SumOf(model, result.assignment), least * (1 + kSlack)) << trial;
    }
    num_split += !result.is_exact;
  }
  EXPECT_GT(num_split, 40);
}

TEST(EliminationOrderTest, HasEachVariableOfATableOnceAndKnowsItsEntries) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 200; ++trial) {
    const CostModel model =
        ModelOf(RandomProblem(random, {.max_variables = 30, .max_tables = 40, .max_rank = 3}));
    std::set<int> variables;
    for (const CostTable& table : model.tables)
      variables.insert(table.variables.begin(), table.variables.end());
    for (NextVariable next : {NextVariable::kFewestCombinations, NextVariable::kFewestFills}) {
      const EliminationOrder order = OrderBy(next, model, kInf);
      EXPECT_EQ(std::set<int>(order.order.begin(), order.order.end()), variables);
      EXPECT_EQ(order.order.size(), variables.size());
      EXPECT_EQ(order.entries, EntriesToEliminate(model, order.order, kInf));
      EXPECT_LE(FindOrder(model, kInf).entries, order.entries);
    }
  }
}

TEST(EliminationOrderTest, OfAChainIsNoWiderThanTheChain) {
  const MinSum chain = RandomChain({.length = 400, .states = 3, .width = 3, .seed = 1});
  // Four variables at a time but at the end.
  EXPECT_LE(FindOrder(ModelOf(chain), kInf).entries, 400 * 81);
}

TEST(EliminationOrderTest, FixesOtherVariablesEachTime) {
  const CostModel model = ModelOf(RandomGrid(8, 8, 3, 1));
  std::vector<int> times_fixed(64, 0);
  for (int step = 0; step < 12; ++step) {
    const EliminationOrder order = OrderWithFixed(model, 27, times_fixed, step);
    EXPECT_EQ(order.order.size() + order.fixed.size(), 64);
    EXPECT_LE(order.entries, 27.0 * static_cast<double>(order.order.size()));
    for (int v : order.fixed) ++times_fixed[v];
  }
  EXPECT_LE(*std::max_element(times_fixed.begin(), times_fixed.end()), 9);
}

TEST(ReduceTest, KeepsTheLeastSumAndTakesAssignmentsToNoWorseOnes) {
  std::mt19937 random(4);
  int num_dropped = 0;
  for (int trial = 0; trial < 1000; ++trial) {
    const MinSum problem = RandomProblem(random, {});
    const CostModel model = ModelOf(problem);
    const double least = LeastCost(problem);
    const Reduced reduced = Reduce(model);
    if (reduced.IsInfeasible()) {
      ASSERT_EQ(least, kInf) << trial;
      continue;
    }
    num_dropped += !reduced.dropped.empty();
    const double left = LeastCost(ProblemOf(reduced.model));
    if (least == kInf) {
      ASSERT_EQ(left, kInf) << trial;
    }
    if (least < kInf) {
      ASSERT_NEAR(left, least, kSlack * least) << trial;
    }
    for (int i = 0; i < 10; ++i) {
      const std::vector<int> start = RandomAssignment(random, problem), into = reduced.Into(start);
      ASSERT_LE(SumOf(reduced.model, into), SumOf(model, start) * (1 + kSlack)) << trial;
      ASSERT_LE(SumOf(model, reduced.Original(into)), SumOf(model, start) * (1 + kSlack)) << trial;
    }
  }
  EXPECT_GT(num_dropped, 300);
}

// Each of two tables allows x to be 0 with some states, but both together with none; they become one once z is decided.
TEST(ReduceTest, DropsWhatOnlyTablesThatBecomeOneForbid) {
  MinSum problem;
  const int x = problem.AddVariable(2), y = problem.AddVariable(2), z = problem.AddVariable(2),
            w = problem.AddVariable(2);
  problem.AddTable({x, y, z}, {kInf, kInf, 0, 1, 0, 1, 0, 1});
  problem.AddTable({x, y, w}, {0, 0, kInf, kInf, 0, 5, 5, 0});
  const Reduced reduced = Reduce(ModelOf(problem));
  EXPECT_EQ(reduced.kept[z], std::vector<int>{0});
  EXPECT_EQ(reduced.kept[x], std::vector<int>{1});
}

// A ring of equal tables, in either order of their variables, plus costs of single variables.
TEST(ReduceTest, TablesThatAreEqualShareTheirCosts) {
  constexpr int kRing = 8;
  MinSum problem;
  for (int v = 0; v < kRing; ++v) problem.AddVariable(2);
  for (int v = 0; v < kRing; ++v) {
    const int next = (v + 1) % kRing;
    problem.AddTable(v % 4 < 2 ? std::vector<int>{v, next} : std::vector<int>{next, v}, {0, 4, 6, 1});
    problem.AddTable({v}, {1, 2});
  }
  const Reduced reduced = Reduce(ModelOf(problem));
  ASSERT_TRUE(reduced.dropped.empty());
  ASSERT_EQ(reduced.model.tables.size(), kRing);
  std::set<std::vector<double>> different;
  std::set<const std::vector<double>*> lists;
  for (const CostTable& table : reduced.model.tables) {
    different.insert(table.costs.list());
    lists.insert(&table.costs.list());
  }
  EXPECT_LT(lists.size(), kRing);
  EXPECT_EQ(lists.size(), different.size());
  ForEachAssignment(reduced.model.states, [&](const std::vector<int>& assignment) {
    EXPECT_EQ(SumOf(reduced.model, assignment), problem.CostOf(assignment));
  });
}

TEST(TableKindsTest, AListIsOfOneKindForEachOfItsSizes) {
  const std::vector<int> states = {2, 3, 1};
  const CostList costs = {1, 2, 3, 4, 5, 6};
  TableKinds kinds;
  const auto number = [&](std::vector<int> variables, CostList list) {
    return kinds.NumberOf(CostTable{std::move(variables), std::move(list)}, states);
  };
  const int rows = number({0, 1}, costs), columns = number({1, 0}, costs);
  EXPECT_NE(rows, columns);
  EXPECT_EQ(number({0, 1}, costs), rows);
  EXPECT_EQ(number({1, 0}, costs), columns);
  EXPECT_EQ(number({0, 1}, costs.list()), rows);
  EXPECT_NE(number({0, 1}, {1, 2, 3, 4, 5, 7}), rows);
  EXPECT_NE(number({0, 1, 2}, costs), rows);
  EXPECT_EQ(kinds.size(), 4);
}

TEST(ReduceTest, KeepsTheLeastSumForAllStatesOfWhatKeepsThem) {
  std::mt19937 random(6);
  int num_dropped = 0, compared = 0;
  for (int trial = 0; trial < 500; ++trial) {
    const MinSum problem = RandomProblem(random, {});
    const int kept = static_cast<int>(random() % static_cast<unsigned>(problem.num_variables()));
    std::vector<bool> keeps(problem.num_variables(), false);
    keeps[kept] = true;
    const Reduced reduced = Reduce(ModelOf(problem), keeps);
    if (reduced.IsInfeasible()) continue;
    ASSERT_EQ(reduced.model.states[kept], problem.states(kept));
    num_dropped += !reduced.dropped.empty();
    for (int s = 0; s < problem.states(kept); ++s) {
      std::vector<double> only(problem.states(kept), kInf);
      only[s] = 0;
      MinSum before = problem, after = ProblemOf(reduced.model);
      before.AddTable({kept}, only);
      after.AddTable({kept}, only);
      const double least = LeastCost(before);
      if (least == kInf) {
        ASSERT_EQ(LeastCost(after), kInf) << trial;
      } else {
        ASSERT_NEAR(LeastCost(after), least, kSlack * (1 + least)) << trial;
      }
      ++compared;
    }
  }
  EXPECT_GT(num_dropped, 100);
  EXPECT_GT(compared, 500);
}

TEST(CondenseTest, KeepsTheLeastSumForAllStatesOfWhatIsLeft) {
  std::mt19937 random(5);
  size_t num_gone = 0, num_left = 0;
  for (int trial = 0; trial < 500; ++trial) {
    const MinSum problem = RandomProblem(random, {});
    const CostModel model = ModelOf(problem);
    const Condensed condensed = Condense(model, 1 << (random() % 10), 1 << (random() % 6));
    num_gone += condensed.steps.size();
    std::vector<bool> is_gone(model.states.size(), false);
    for (const Condensed::Step& step : condensed.steps) is_gone[step.variable] = true;
    for (size_t v = 0; v < is_gone.size(); ++v) {
      ASSERT_EQ(condensed.model.states[v], is_gone[v] ? 1 : model.states[v]);
      num_left += is_gone[v] ? 0 : 1;
    }
    for (const CostTable& table : condensed.model.tables)
      for (int v : table.variables) ASSERT_FALSE(is_gone[v]) << trial;
    // By the states of the remaining variables: the least sum over the others.
    std::vector<int> weights(model.states.size(), 0);
    size_t count = 1;
    for (size_t v = 0; v < is_gone.size(); ++v) {
      if (is_gone[v]) continue;
      weights[v] = static_cast<int>(count);
      count *= static_cast<size_t>(model.states[v]);
    }
    std::vector<double> least(count, kInf);
    const auto index = [&](const std::vector<int>& assignment) {
      size_t at = 0;
      for (size_t v = 0; v < assignment.size(); ++v) at += static_cast<size_t>(weights[v] * assignment[v]);
      return at;
    };
    ForEachAssignment(model.states, [&](const std::vector<int>& assignment) {
      double& sum = least[index(assignment)];
      sum = std::min(sum, SumOf(model, assignment));
    });
    ForEachAssignment(condensed.model.states, [&](const std::vector<int>& assignment) {
      const double sum = SumOf(condensed.model, assignment);
      const std::vector<int> original = condensed.Original(assignment);
      ASSERT_EQ(condensed.Into(original), assignment) << trial;
      if (least[index(original)] == kInf) {
        ASSERT_EQ(sum, kInf) << trial;
        return;
      }
      ASSERT_NEAR(sum, least[index(original)], kSlack * (1 + std::abs(sum))) << trial;
      ASSERT_NEAR(SumOf(model, original), sum, kSlack * (1 + std::abs(sum))) << trial;
    });
  }
  EXPECT_GT(num_gone, 500);
  EXPECT_GT(num_left, 500);
}

// Copies of a variable, which have copies of its tables, are left out; their best states are those of the variable.
TEST(TwinsTest, CopiesOfAVariableAreLeftOut) {
  std::mt19937 random(11);
  for (int trial = 0; trial < 300; ++trial) {
    const MinSum once = RandomProblem(random, {.max_variables = 4, .max_states = 3});
    CostModel model = ModelOf(once);
    const int copied = static_cast<int>(random() % model.states.size());
    const int copies = 1 + static_cast<int>(random() % 3);
    for (int i = 0; i < copies; ++i) {
      model.states.push_back(model.states[copied]);
      for (const CostTable& table : once.tables()) {
        CostTable copy = table;
        std::replace(copy.variables.begin(), copy.variables.end(), copied,
                     static_cast<int>(model.states.size()) - 1);
        if (copy.variables == table.variables) continue;
        std::vector<int> order = copy.variables;
        std::sort(order.begin(), order.end());  // as Reduce leaves it
        model.tables.push_back(Reordered(copy, order, model.states));
      }
    }
    const Twins joined = JoinTwins(model);
    const bool has_tables = !TablesOf(model)[copied].empty();
    EXPECT_GE(std::ssize(joined.twins), has_tables ? copies : 0);
    ForEachAssignment(joined.model.states, [&](const std::vector<int>& assignment) {
      const double sum = SumOf(joined.model, assignment),
                   original = SumOf(model, joined.Original(assignment));
      EXPECT_TRUE(sum == original || std::abs(sum - original) <= kSlack * sum) << trial;
    });
    const double least = LeastCost(ProblemOf(model)), left = LeastCost(ProblemOf(joined.model));
    EXPECT_TRUE(least == left || std::abs(least - left) <= kSlack * least) << trial;
  }
}

TEST(ShrunkTest, LeadsBackToTheFirstModel) {
  std::mt19937 random(5);
  int num_replaced = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const MinSum problem = RandomProblem(random, {.max_variables = 30, .max_states = 4, .max_tables = 80});
    const Reduced reduced = Reduce(ModelOf(problem));
    if (reduced.IsInfeasible()) continue;
    const double max_joint = 1 << (random() % 6);
    Shrunk now(reduced.model, max_joint);
    if (trial % 2 == 1) {
      now = Shrunk(max_joint);  // as of a branch
      now.Replace(reduced.model);
    }
    for (int times = 0; times < 2 && !now.IsInfeasible(); ++times) {
      const std::vector<int> start = RandomAssignment(random, ProblemOf(reduced.model));
      const double sum = SumOf(reduced.model, start);
      const std::vector<int> into = now.Into(start);
      // States that have been forbidden in between cost more.
      const double left = SumOf(now.model(), into), back = SumOf(reduced.model, now.Original(into));
      if (times == 0) {
        ASSERT_LE(left, sum + kSlack * (1 + sum)) << trial;
      }
      if (left < kInf) {
        ASSERT_NEAR(back, left, kSlack * (1 + left)) << trial;
      }
      // States other than a variable's first one are forbidden.
      CostModel less = now.model();
      const int v = static_cast<int>(random() % less.states.size());
      if (less.states[v] < 2) continue;
      std::vector<double> only(less.states[v], kInf);
      only[0] = 0;
      less.tables.push_back({{v}, only});
      now.Replace(std::move(less));
      ++num_replaced;
    }
  }
  EXPECT_GT(num_replaced, 100);
}

TEST(ReparametrizationTest, MovesCostsAndRaisesTheBound) {
  std::mt19937 random(6);
  int num_raised = 0;
  for (int trial = 0; trial < 500; ++trial) {
    const Reduced reduced = Reduce(ModelOf(RandomProblem(random, {})));
    if (reduced.IsInfeasible()) continue;
    const CostModel& model = reduced.model;
    const double least = LeastCost(ProblemOf(model));
    Reparametrization messages(model);
    double before = messages.Bound();
    for (int pass = 0; pass < 3; ++pass) {
      messages.Pass();
      const double bound = messages.Bound();
      ASSERT_GE(bound, before - kSlack * std::abs(before)) << trial;
      num_raised += bound > before + kSlack * std::abs(before);
      before = bound;
    }
    if (least < kInf) {
      ASSERT_LE(before, least * (1 + kSlack)) << trial;
    }
    const std::vector<std::vector<double>> bounds = messages.BoundPerState();
    const CostModel moved = messages.Model();
    ForEachAssignment(model.states, [&](const std::vector<int>& assignment) {
      const double sum = SumOf(model, assignment);
      if (sum == kInf) {
        ASSERT_EQ(SumOf(moved, assignment), kInf) << trial;
      } else {
        ASSERT_NEAR(SumOf(moved, assignment), sum, kSlack * (1 + sum)) << trial;
        for (size_t v = 0; v < assignment.size(); ++v)
          ASSERT_LE(bounds[v][assignment[v]], sum * (1 + kSlack) + kSlack);
      }
    });
  }
  EXPECT_GT(num_raised, 30);
}

TEST(LocalSearchTest, IsNeverWorseAndStopsAtItsGoal) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 300; ++trial) {
    const MinSum problem = RandomProblem(random, {.max_variables = 12, .max_tables = 20, .max_rank = 3});
    const CostModel model = ModelOf(problem);
    std::vector<int> assignment = RandomAssignment(random, problem);
    const double before = SumOf(model, assignment);
    double entries = 0;
    const double sum = Improve(model, 0, 2000, assignment, entries);
    ASSERT_EQ(sum, SumOf(model, assignment));
    ASSERT_LE(sum, before);
    std::vector<int> same = assignment;
    ASSERT_EQ(Improve(model, sum, 2000, same, entries), sum);
    if (sum < kInf) {
      ASSERT_EQ(same, assignment);
    }
  }
}

}  // namespace
}  // namespace meshwork::parts_test
