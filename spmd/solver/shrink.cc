#include "meshwork/spmd/solver/shrink.h"

#include <algorithm>
#include <map>
#include <utility>

namespace meshwork {
namespace {

// A variable that is eliminated on the way leaves a table of at most so many entries, or of no more than its tables
// had.
constexpr double kMaxMade = 1000;

}  // namespace

std::vector<int> Twins::Original(std::vector<int> assignment) const {
  for (const auto& [twin, of] : twins) assignment[twin] = assignment[of];
  return assignment;
}

std::vector<int> Twins::Into(std::vector<int> original) const {
  for (const auto& [twin, of] : twins) original[twin] = 0;
  return original;
}

Twins JoinTwins(CostModel model) {
  TableKinds kinds;
  const TablesOfEach of = TablesOf(model);
  // Variables by their key: the number of states, and per table of the variable a number that equal tables have (with
  // the variable put first), and the other variables.
  std::map<std::vector<int>, std::vector<int>> alike;
  for (size_t v = 0; v < of.size(); ++v) {
    std::vector<std::vector<int>> tables;
    for (int t : of[v]) {
      std::vector<int> order = model.tables[t].variables;
      std::iter_swap(order.begin(), std::find(order.begin(), order.end(), static_cast<int>(v)));
      std::sort(std::next(order.begin()), order.end());
      const CostTable seen = Reordered(model.tables[t], order, model.states);
      tables.emplace_back(std::vector{kinds.NumberOf(seen, model.states)})
          .insert(tables.back().end(), std::next(order.begin()), order.end());
    }
    std::sort(tables.begin(), tables.end());
    std::vector<int> key = {model.states[v]};
    for (const std::vector<int>& table : tables) key.insert(key.end(), table.begin(), table.end());
    if (!tables.empty()) alike[key].push_back(static_cast<int>(v));
  }
  Twins result;
  std::vector<bool> is_gone(model.tables.size(), false);
  for (const auto& [key, variables] : alike) {
    for (size_t i = 1; i < variables.size(); ++i) {
      result.twins.emplace_back(variables[i], variables[0]);
      model.states[variables[i]] = 1;
      for (int t : of[variables[i]]) is_gone[t] = true;
    }
    if (variables.size() == 1) continue;
    for (int t : of[variables[0]]) {
      std::vector<double> costs = model.tables[t].costs.list();
      for (double& cost : costs) cost *= static_cast<double>(variables.size());
      model.tables[t].costs = std::move(costs);
    }
  }
  result.model.states = std::move(model.states);
  for (size_t t = 0; t < is_gone.size(); ++t)
    if (!is_gone[t]) result.model.tables.push_back(std::move(model.tables[t]));
  return result;
}

Shrunk::Shrunk(CostModel model, double max_joint) : max_joint_(max_joint), model_(std::move(model)) {
  Condense();
  if (is_infeasible_) return;
  Twins twins = JoinTwins(std::move(model_));
  model_ = std::move(twins.model);
  if (twins.twins.empty()) return;
  steps_.push_back(std::move(twins));
  Condense();
}

void Shrunk::Reduce(CostModel model) {
  Reduced reduced = meshwork::Reduce(std::move(model));
  is_infeasible_ |= reduced.IsInfeasible();
  model_ = std::move(reduced.model);
  steps_.push_back(std::move(reduced));
}

void Shrunk::Condense() {
  Condensed condensed = meshwork::Condense(std::move(model_), max_joint_, std::min(kMaxMade, max_joint_));
  entries_ += condensed.entries;
  CostModel left = std::move(condensed.model);
  steps_.push_back(std::move(condensed));
  Reduce(std::move(left));
}

void Shrunk::Replace(CostModel model) {
  Reduce(std::move(model));
  if (!is_infeasible_) Condense();
}

std::vector<int> Shrunk::Original(std::vector<int> assignment) const {
  for (size_t i = steps_.size(); i-- > 0;)
    assignment = std::visit([&](const auto& step) { return step.Original(assignment); }, steps_[i]);
  return assignment;
}

std::vector<int> Shrunk::Into(std::vector<int> original) const {
  for (const auto& step : steps_)
    original = std::visit([&](const auto& one) { return one.Into(original); }, step);
  return original;
}

}  // namespace meshwork
