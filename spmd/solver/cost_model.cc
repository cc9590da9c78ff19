#include "meshwork/spmd/solver/cost_model.h"

#include <algorithm>
#include <utility>

namespace meshwork {
double Combinations(std::span<const int> variables, std::span<const int> states) {
  double product = 1;
  for (int v : variables) product *= states[v];
  return product;
}

void AddBroadcast(const CostTable& table, std::span<const int> scope, std::span<const int> states,
                  std::vector<double>& sum) {
  if (scope.empty()) {
    sum[0] += table.costs[0];
    return;
  }
  const size_t rank = scope.size();
  absl::InlinedVector<size_t, 24> numbers(3 * rank, 0);
  size_t *strides = numbers.data(), *sizes = strides + rank, *at = sizes + rank;
  for (size_t d = 0; d < rank; ++d) sizes[d] = static_cast<size_t>(states[scope[d]]);
  size_t stride = 1;
  for (size_t p = table.variables.size(); p-- > 0;) {
    strides[std::find(scope.begin(), scope.end(), table.variables[p]) - scope.begin()] = stride;
    stride *= static_cast<size_t>(states[table.variables[p]]);
  }
  const size_t inner = sizes[rank - 1], step = strides[rank - 1];
  const double* in = table.costs.data();
  for (double *out = sum.data(), *end = out + sum.size(); out < end; out += inner) {
    if (step == 0) {
      for (size_t j = 0; j < inner; ++j) out[j] += *in;
    } else if (step == 1) {
      for (size_t j = 0; j < inner; ++j) out[j] += in[j];
    } else {
      for (size_t j = 0; j < inner; ++j) out[j] += in[j * step];
    }
    for (size_t d = rank - 1; d-- > 0;) {
      in += strides[d];
      if (++at[d] < sizes[d]) break;
      in -= strides[d] * sizes[d];
      at[d] = 0;
    }
  }
}

std::vector<int> SizesOf(const CostTable& table, std::span<const int> states) {
  std::vector<int> sizes;
  sizes.reserve(table.variables.size());
  for (int v : table.variables) sizes.push_back(states[v]);
  return sizes;
}

uint64_t HashOf(std::span<const double> costs, std::span<const int> sizes) {
  uint64_t hash = costs.size();
  for (int states : sizes) hash = Mixed(hash, static_cast<uint64_t>(states));
  for (double cost : costs) hash = Mixed(hash, std::bit_cast<uint64_t>(cost));
  return hash;
}

int TableKinds::NumberOf(const CostTable& table, std::span<const int> states) {
  std::vector<int> sizes = SizesOf(table, states);
  const auto [seen, is_new] = seen_.try_emplace(&table.costs.list(), Seen{table.costs, -1});
  int& number = seen->second.number;
  if (is_new || kinds_[number].sizes != sizes) number = NumberOf(table.costs, std::move(sizes));
  return number;
}

int TableKinds::NumberOf(const CostList& costs, std::vector<int> sizes) {
  std::vector<int>& same = of_hash_[HashOf(costs.list(), sizes)];
  for (int number : same)
    if (kinds_[number].costs.list() == costs.list() && kinds_[number].sizes == sizes) return number;
  same.push_back(size());
  kinds_.push_back({costs, std::move(sizes)});
  return size() - 1;
}

double EntryOf(const CostTable& table, std::span<const int> states, std::span<const int> assignment) {
  size_t index = 0;
  for (int v : table.variables)
    index = index * static_cast<size_t>(states[v]) + static_cast<size_t>(assignment[v]);
  return table.costs[index];
}

double SumOf(const CostModel& model, std::span<const int> assignment) {
  double sum = 0;
  for (const CostTable& table : model.tables) sum += EntryOf(table, model.states, assignment);
  return sum;
}

CostTable Reordered(const CostTable& table, std::vector<int> order, std::span<const int> states) {
  std::vector<double> costs(table.costs.size(), 0);
  AddBroadcast(table, order, states, costs);
  return {std::move(order), std::move(costs)};
}

TablesOfEach TablesOf(const CostModel& model) {
  TablesOfEach tables(model.states.size());
  for (size_t t = 0; t < model.tables.size(); ++t)
    for (int v : model.tables[t].variables) tables[v].push_back(static_cast<int>(t));
  return tables;
}

AroundVariable Around(std::span<const int> sizes, size_t position) {
  AroundVariable around;
  for (size_t p = 0; p < sizes.size(); ++p) {
    const auto size = static_cast<size_t>(sizes[p]);
    (p < position ? around.before : p == position ? around.states : around.after) *= size;
  }
  return around;
}

AroundVariable Around(const CostTable& table, size_t position, std::span<const int> states) {
  return Around(SizesOf(table, states), position);
}

double LeastOf(std::span<const double> costs) {
  // Four minima at a time, because each comparison waits for the one before.
  double least[4] = {kNever, kNever, kNever, kNever};
  size_t i = 0;
  for (; i + 4 <= costs.size(); i += 4)
    for (size_t j = 0; j < 4; ++j) least[j] = costs[i + j] < least[j] ? costs[i + j] : least[j];
  for (; i < costs.size(); ++i) least[0] = std::min(least[0], costs[i]);
  return std::min(std::min(least[0], least[1]), std::min(least[2], least[3]));
}

std::vector<double> LeastPerState(std::span<const double> costs, const AroundVariable& around) {
  std::vector<double> least(around.states, kNever);
  const double* row = costs.data();
  for (size_t b = 0; b < around.before; ++b) {
    if (around.after == 1) {
      for (size_t s = 0; s < around.states; ++s) least[s] = row[s] < least[s] ? row[s] : least[s];
      row += around.states;
      continue;
    }
    for (size_t s = 0; s < around.states; ++s, row += around.after)
      least[s] = std::min(least[s], LeastOf({row, around.after}));
  }
  return least;
}

}  // namespace meshwork
