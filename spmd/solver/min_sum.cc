#include "meshwork/spmd/solver/min_sum.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/spmd/solver/bounded_search.h"
#include "meshwork/spmd/solver/cost_model.h"
#include "meshwork/spmd/solver/elimination.h"
#include "meshwork/spmd/solver/elimination_order.h"
#include "meshwork/spmd/solver/reduce.h"

namespace meshwork {

int MinSum::AddVariable(int states) {
  MESHWORK_CHECK(states >= 1, "a variable of {} states", states);
  model_.states.push_back(states);
  return num_variables() - 1;
}

void MinSum::AddTable(std::vector<int> variables, CostList costs) {
  for (size_t i = 0; i < variables.size(); ++i) {
    MESHWORK_CHECK(variables[i] >= 0 && variables[i] < num_variables(), "there is no variable {}",
                   variables[i]);
    MESHWORK_CHECK(std::find(variables.begin(), variables.begin() + i, variables[i]) == variables.begin() + i,
                   "a table has variable {} twice", variables[i]);
  }
  const double combinations = Combinations(variables, states());
  MESHWORK_CHECK(static_cast<double>(costs.size()) == combinations, "{} costs for {} combinations of states",
                 costs.size(), combinations);
  for (double cost : costs) MESHWORK_CHECK(cost >= 0, "a cost of {}", cost);
  model_.tables.push_back({std::move(variables), std::move(costs)});
}

double MinSum::CostOf(std::span<const int> assignment) const {
  MESHWORK_CHECK(assignment.size() == states().size(), "{} states for {} variables", assignment.size(),
                 states().size());
  return SumOf(model_, assignment);
}

namespace {

// Solves a problem of few entries whose tables hardly grow in elimination: to drop states first would take longer.
// Nothing for other problems.
std::optional<MinSumResult> EliminateAsItIs(const MinSum& problem, double max_entries) {
  size_t entries = 0;
  for (const CostTable& table : problem.tables()) entries += table.costs.size();
  constexpr size_t kFewEntries = 1 << 16;
  constexpr double kGrowth = 8;
  if (entries > kFewEntries) return std::nullopt;
  const double most = std::min(max_entries, kGrowth * static_cast<double>(entries));
  const EliminationOrder order = OrderBy(NextVariable::kFewestCombinations, problem.model(), most);
  if (order.entries > most) return std::nullopt;
  std::vector<int> found = Eliminate(problem.model(), order.order).assignment;
  const double cost = problem.CostOf(found);
  if (cost == kNever) return std::nullopt;
  return MinSumResult{std::move(found), cost, /*lower_bound=*/cost, /*is_optimal=*/true, order.entries};
}

}  // namespace

MinSumResult Minimize(const MinSum& problem, const MinSumOptions& options) {
  if (std::optional<MinSumResult> found = EliminateAsItIs(problem, static_cast<double>(options.max_entries)))
    return *std::move(found);
  MinSumResult result;
  result.assignment = options.start;
  result.assignment.resize(problem.num_variables(), 0);
  result.cost = problem.CostOf(result.assignment);
  Reduced reduced = Reduce(problem.model());
  if (reduced.IsInfeasible()) {
    result.lower_bound = kNever;
    result.is_optimal = true;
    return result;
  }
  const auto max_entries = static_cast<double>(options.max_entries);
  constexpr double kFewSteps = 4e6;  // to eliminate them takes no longer than to find another order
  const double most = std::min(max_entries, kMostExact);
  const EliminationOrder order = FindOrder(reduced.model, most, kFewSteps);
  const bool is_exact = order.entries <= most;
  std::vector<int> found;
  if (is_exact) {
    result.entries = order.entries;
    found = reduced.Original(Eliminate(std::move(reduced.model), order.order).assignment);
  } else {
    std::vector<int> start;
    if (!options.start.empty()) start = reduced.Into(options.start);
    const BoundedResult bounded = SearchBounded(reduced.model, start, max_entries, options.order);
    found = reduced.Original(bounded.assignment);
    result.lower_bound = bounded.bound;
    result.entries = bounded.entries;
  }
  const double cost = problem.CostOf(found);
  if (is_exact || cost < result.cost) {
    result.assignment = std::move(found);
    result.cost = cost;
  }
  result.lower_bound = is_exact ? result.cost : std::min(result.lower_bound, result.cost);
  result.is_optimal = result.cost <= result.lower_bound * kEqual;
  return result;
}

}  // namespace meshwork
