#include "meshwork/spmd/search/reparametrization.h"

#include <algorithm>

namespace meshwork {
namespace {

size_t PlaceIn(const CostTable& table, int variable) {
  return std::find(table.variables.begin(), table.variables.end(), variable) - table.variables.begin();
}

// Adds amounts[s] * factor to the entries where the variable at `position` has state s.
void AddPerState(const std::vector<double>& amounts, double factor, size_t position,
                 const std::vector<int>& states, CostTable& table) {
  const AroundVariable around = Around(table, position, states);
  double* row = table.costs.data();
  for (size_t b = 0; b < around.before; ++b) {
    for (size_t s = 0; s < around.states; ++s, row += around.after) {
      const double amount = amounts[s] * factor;
      for (size_t j = 0; j < around.after; ++j) row[j] += amount;
    }
  }
}

}  // namespace

Reparametrization::Reparametrization(const CostModel& model) : model_{model.states, {}} {
  for (int states : model.states) own_.emplace_back(states, 0);
  for (const CostTable& table : model.tables) {
    if (table.variables.empty()) {
      constant_ += table.costs[0];
    } else if (table.variables.size() == 1) {
      for (size_t s = 0; s < table.costs.size(); ++s) own_[table.variables[0]][s] += table.costs[s];
    } else {
      entries_per_pass_ += 4.0 * static_cast<double>(table.variables.size() * table.costs.size());
      model_.tables.push_back(table);
    }
  }
  tables_of_ = TablesOf(model_);
}

void Reparametrization::Pass() {
  const int n = static_cast<int>(own_.size());
  for (int v = 0; v < n; ++v) Visit(v, /*forward=*/true);
  for (int v = n; v-- > 0;) Visit(v, /*forward=*/false);
}

// Takes what its tables know of the variable, and gives it to those that have variables that are visited later.
void Reparametrization::Visit(int variable, bool forward) {
  std::vector<double>& own = own_[variable];
  int num_later = 0, num_earlier = 0;
  for (int t : tables_of_[variable]) {
    CostTable& table = model_.tables[t];
    const size_t position = PlaceIn(table, variable);
    const std::vector<double> least = LeastPerState(table, position, model_.states);
    AddPerState(least, -1, position, model_.states, table);
    for (size_t s = 0; s < own.size(); ++s) own[s] += least[s];
    num_later += table.variables.back() != variable;
    num_earlier += table.variables.front() != variable;
  }
  if (num_later + num_earlier == 0) return;
  const double share = 1.0 / std::max(num_later, num_earlier);
  for (int t : tables_of_[variable]) {
    CostTable& table = model_.tables[t];
    const int last = forward ? table.variables.back() : table.variables.front();
    if (last != variable) AddPerState(own, share, PlaceIn(table, variable), model_.states, table);
  }
  const double left = 1 - share * (forward ? num_later : num_earlier);
  for (double& cost : own) cost *= left;
}

double Reparametrization::Bound() const {
  double bound = constant_;
  for (const CostTable& table : model_.tables) bound += LeastOf(table.costs);
  for (const std::vector<double>& own : own_) bound += LeastOf(own);
  return bound;
}

std::vector<std::vector<double>> Reparametrization::BoundPerState() const {
  const double bound = Bound();
  std::vector<std::vector<double>> bounds;
  for (const std::vector<double>& own : own_) {
    bounds.emplace_back(own);
    const double least = LeastOf(own);
    for (double& cost : bounds.back()) cost += bound - least;
  }
  for (const CostTable& table : model_.tables) {
    const double least = LeastOf(table.costs);
    for (size_t p = 0; p < table.variables.size(); ++p) {
      const std::vector<double> with = LeastPerState(table, p, model_.states);
      for (size_t s = 0; s < with.size(); ++s) bounds[table.variables[p]][s] += with[s] - least;
    }
  }
  return bounds;
}

CostModel Reparametrization::Model() const {
  CostModel model = model_;
  if (constant_ != 0) model.tables.push_back({{}, {constant_}});
  for (size_t v = 0; v < own_.size(); ++v)
    if (own_[v].size() > 1) model.tables.push_back({{static_cast<int>(v)}, own_[v]});
  for (size_t v = 0; v < own_.size(); ++v)
    if (own_[v].size() == 1 && own_[v][0] != 0) model.tables.push_back({{}, own_[v]});
  return model;
}

}  // namespace meshwork
