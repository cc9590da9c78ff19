#include "meshwork/spmd/solver/reparametrization.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace meshwork {
namespace {

// Adds amounts[s] to the entries where the variable has state s.
void AddPerState(const std::vector<double>& amounts, const AroundVariable& around,
                 std::vector<double>& costs) {
  double* row = costs.data();
  for (size_t b = 0; b < around.before; ++b)
    for (size_t s = 0; s < around.states; ++s, row += around.after)
      for (size_t j = 0; j < around.after; ++j) row[j] += amounts[s];
}

// Four minima at a time, because each comparison waits for the one before.
double LeastSum(const double* a, const double* b, size_t count) {
  double least[4] = {kNever, kNever, kNever, kNever};
  size_t i = 0;
  for (; i + 4 <= count; i += 4)
    for (size_t j = 0; j < 4; ++j) least[j] = a[i + j] + b[i + j] < least[j] ? a[i + j] + b[i + j] : least[j];
  for (; i < count; ++i) least[0] = std::min(least[0], a[i] + b[i]);
  return std::min(std::min(least[0], least[1]), std::min(least[2], least[3]));
}

}  // namespace

Reparametrization::Reparametrization(const CostModel& model, const std::vector<int>& order)
    : model_(model),
      order_(order),
      rank_(model.states.size()),
      places_(model.states.size()),
      added_(model.tables.size()) {
  if (order_.empty()) {
    order_.resize(rank_.size());
    std::iota(order_.begin(), order_.end(), 0);
  }
  for (size_t i = 0; i < order_.size(); ++i) rank_[order_[i]] = static_cast<int>(i);
  for (int states : model.states) own_.emplace_back(states, 0);
  for (size_t t = 0; t < model.tables.size(); ++t) {
    const CostTable& table = model.tables[t];
    if (table.variables.empty()) {
      constant_ += table.costs[0];
    } else if (table.variables.size() == 1) {
      for (size_t s = 0; s < table.costs.size(); ++s) own_[table.variables[0]][s] += table.costs[s];
    } else {
      entries_per_pass_ += 2.0 * static_cast<double>(table.variables.size() * table.costs.size());
      for (int v : table.variables) {
        places_[v].push_back({static_cast<int>(t), added_[t].size()});
        added_[t].emplace_back(model.states[v], 0);
      }
    }
  }
}

void Reparametrization::Pass() {
  for (int v : order_) Visit(v, /*forward=*/true);
  for (size_t i = order_.size(); i-- > 0;) Visit(order_[i], /*forward=*/false);
}

// Whether the table has a variable that is visited later.
bool Reparametrization::IsVisitedLater(int variable, const CostTable& table, bool forward) const {
  return std::any_of(table.variables.begin(), table.variables.end(), [&](int other) {
    return forward ? rank_[other] > rank_[variable] : rank_[other] < rank_[variable];
  });
}

std::vector<double> Reparametrization::LeastOfOthers(const CostTable& table, const Place& at) const {
  const std::vector<std::vector<double>>& added = added_[at.table];
  const size_t last = added.size() - 1, inner = added[last].size();
  std::vector<double> least(added[at.position].size(), kNever);
  std::vector<size_t> state(last, 0);  // of the variables but the last
  for (const double *row = table.costs.data(), *end = row + table.costs.size(); row < end; row += inner) {
    double outer = 0;
    for (size_t p = 0; p < last; ++p)
      if (p != at.position) outer += added[p][state[p]];
    if (at.position == last) {
      for (size_t j = 0; j < inner; ++j) least[j] = row[j] + outer < least[j] ? row[j] + outer : least[j];
    } else {
      double& of_state = least[state[at.position]];
      of_state = std::min(of_state, outer + LeastSum(row, added[last].data(), inner));
    }
    for (size_t p = last; p-- > 0;) {
      if (++state[p] < added[p].size()) break;
      state[p] = 0;
    }
  }
  return least;
}

std::vector<double> Reparametrization::LeastPerStateOf(const Place& at) const {
  std::vector<double> least = LeastOfOthers(model_.tables[at.table], at);
  for (size_t s = 0; s < least.size(); ++s) least[s] += added_[at.table][at.position][s];
  return least;
}

// Moves the least costs per state of the variable out of its tables, and shares them among the tables that have a
// variable visited later.
void Reparametrization::Visit(int variable, bool forward) {
  std::vector<double>& own = own_[variable];
  int num_later = 0, num_earlier = 0;
  for (const Place& at : places_[variable]) {
    const CostTable& table = model_.tables[at.table];
    const std::vector<double> least = LeastOfOthers(table, at);
    std::vector<double>& added = added_[at.table][at.position];
    for (size_t s = 0; s < own.size(); ++s) {
      own[s] += least[s] + added[s];
      added[s] = -least[s];
    }
    num_later += IsVisitedLater(variable, table, /*forward=*/true);
    num_earlier += IsVisitedLater(variable, table, /*forward=*/false);
  }
  if (num_later + num_earlier == 0) return;
  const double share = 1.0 / std::max(num_later, num_earlier);
  for (const Place& at : places_[variable]) {
    if (!IsVisitedLater(variable, model_.tables[at.table], forward)) continue;
    std::vector<double>& added = added_[at.table][at.position];
    for (size_t s = 0; s < own.size(); ++s) added[s] += share * own[s];
  }
  const double left = 1 - share * (forward ? num_later : num_earlier);
  for (double& cost : own) cost *= left;
}

double Reparametrization::Bound() const {
  double bound = constant_;
  for (size_t t = 0; t < added_.size(); ++t)
    if (!added_[t].empty()) bound += LeastOf(LeastPerStateOf({static_cast<int>(t), 0}));
  for (const std::vector<double>& own : own_) bound += LeastOf(own);
  return bound;
}

std::vector<std::vector<double>> Reparametrization::BoundPerState() const {
  const double bound = Bound();
  std::vector<std::vector<double>> bounds;
  for (size_t v = 0; v < own_.size(); ++v) {
    std::vector<double>& of_state = bounds.emplace_back(own_[v].size(), bound);
    const auto add = [&](const std::vector<double>& with) {
      const double least = LeastOf(with);
      for (size_t s = 0; s < with.size(); ++s) of_state[s] += with[s] - least;
    };
    add(own_[v]);
    for (const Place& at : places_[v]) add(LeastPerStateOf(at));
  }
  return bounds;
}

CostModel Reparametrization::Model() const {
  CostModel model{model_.states, {}};
  for (size_t t = 0; t < added_.size(); ++t) {
    if (added_[t].empty()) continue;
    const CostTable& table = model_.tables[t];
    std::vector<double> costs = table.costs.list();
    for (size_t p = 0; p < added_[t].size(); ++p)
      AddPerState(added_[t][p], Around(table, p, model.states), costs);
    model.tables.push_back({table.variables, std::move(costs)});
  }
  if (constant_ != 0) model.tables.push_back({{}, {constant_}});
  for (size_t v = 0; v < own_.size(); ++v)
    if (own_[v].size() > 1) model.tables.push_back({{static_cast<int>(v)}, own_[v]});
  for (size_t v = 0; v < own_.size(); ++v)
    if (own_[v].size() == 1 && own_[v][0] != 0) model.tables.push_back({{}, own_[v]});
  return model;
}

}  // namespace meshwork
