#include "meshwork/spmd/solver/elimination.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "meshwork/spmd/solver/min_out.h"

namespace meshwork {
namespace {

// Sums with at most this relative difference count as equal in the choice of a state: the order of additions may make
// it.
constexpr double kSame = 1e-14;

// Tables of one variable that are minimised together, and the variables that they have.
struct Group {
  std::vector<int> scope;  // in increasing order
  std::vector<int> tables;
};

std::vector<int> Union(const std::vector<int>& a, const std::vector<int>& b) {
  std::vector<int> both;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return both;
}

// The scopes of tables in buckets, one per variable. A scope is in the bucket of its variable that comes first in the
// order.
class Buckets {
 public:
  Buckets(const CostModel& model, std::span<const int> order, double max_joint)
      : order_(order), states_(model.states), max_joint_(max_joint), place_(model.states.size(), -1) {
    for (size_t i = 0; i < order.size(); ++i) place_[order[i]] = static_cast<int>(i);
    buckets_.resize(order.size());
    for (size_t t = 0; t < model.tables.size(); ++t) {
      std::vector<int> scope = model.tables[t].variables;
      std::sort(scope.begin(), scope.end());
      Add(static_cast<int>(t), std::move(scope));
    }
  }

  // Puts table `t`, which has these variables, into its bucket. Returns false if it has no variables.
  bool Add(int t, std::vector<int> scope) {
    int first = -1;
    for (int v : scope)
      if (first < 0 || place_[v] < first) first = place_[v];
    if (static_cast<size_t>(t) >= scopes_.size()) scopes_.resize(t + 1);
    scopes_[t] = std::move(scope);
    if (first >= 0) buckets_[first].push_back(t);
    return first >= 0;
  }

  const std::vector<int>& Tables(size_t place) const { return buckets_[place]; }

  // The tables of a bucket in groups, the large tables first. A table joins a group unless that would then have more
  // than max_joint combinations.
  std::vector<Group> Groups(size_t place) const {
    std::vector<int> tables = buckets_[place];
    if (max_joint_ < kNever) {
      std::stable_sort(tables.begin(), tables.end(), [&](int a, int b) {
        return Combinations(scopes_[a], states_) > Combinations(scopes_[b], states_);
      });
    }
    std::vector<Group> groups;
    if (max_joint_ == kNever && !tables.empty()) {
      Group all;
      for (int t : tables) all.scope.insert(all.scope.end(), scopes_[t].begin(), scopes_[t].end());
      std::sort(all.scope.begin(), all.scope.end());
      all.scope.erase(std::unique(all.scope.begin(), all.scope.end()), all.scope.end());
      all.tables = std::move(tables);
      groups.push_back(std::move(all));
      return groups;
    }
    for (int t : tables) {
      bool placed = false;
      for (Group& group : groups) {
        std::vector<int> both = Union(group.scope, scopes_[t]);
        if (both.size() > group.scope.size() && Combinations(both, states_) > max_joint_) continue;
        group.scope = std::move(both);
        group.tables.push_back(t);
        placed = true;
        break;
      }
      if (!placed) groups.push_back({scopes_[t], {t}});
    }
    return groups;
  }

 private:
  const std::span<const int> order_;
  const std::span<const int> states_;
  const double max_joint_;
  std::vector<int> place_;                 // per variable
  std::vector<std::vector<int>> buckets_;  // tables, per place in the order
  std::vector<std::vector<int>> scopes_;   // per table
};

// Minimises sums of a model's tables. Equal sums, as those of repeated layers, are minimised once.
class LeastSums {
 public:
  explicit LeastSums(CostModel& model) : model_(model) {
    TableKinds kinds;
    for (const CostTable& table : model.tables) kinds_.push_back(kinds.NumberOf(table, model.states));
  }

  // Adds the table of the least sum of `tables` over the states of `variable`.
  const CostTable& Add(int variable, std::span<const int> tables) {
    variables_.assign({variable});
    key_.clear();
    for (int t : tables) {
      key_.push_back(kinds_[t]);
      for (int v : model_.tables[t].variables) key_.push_back(PlaceOf(v));
    }
    const auto added = static_cast<int>(model_.tables.size());
    if (const auto known = known_.find(key_); known != known_.end()) {
      CostTable least{{}, model_.tables[known->second.table].costs};
      for (int place : known->second.places) least.variables.push_back(variables_[place]);
      kinds_.push_back(known->second.table);
      model_.tables.push_back(std::move(least));
    } else {
      std::vector<const CostTable*> terms;
      for (int t : tables) terms.push_back(&model_.tables[t]);
      CostTable least = MinOut(variable, terms, model_.states);
      Known& made = known_[key_];
      made.table = added;
      for (int v : least.variables) made.places.push_back(PlaceOf(v));
      kinds_.push_back(added);
      model_.tables.push_back(std::move(least));
    }
    return model_.tables.back();
  }

 private:
  struct Known {
    int table;                // the first of its kind
    std::vector<int> places;  // of its variables among those of the sum
  };

  // The place of the variable among those of the sum, in the order in which they are met.
  int PlaceOf(int variable) {
    const auto at = std::find(variables_.begin(), variables_.end(), variable);
    const auto place = static_cast<int>(at - variables_.begin());
    if (at == variables_.end()) variables_.push_back(variable);
    return place;
  }

  CostModel& model_;
  std::vector<int> kinds_;  // per table: the same for equal tables; of a sum: the first equal sum
  std::unordered_map<std::vector<int>, Known, HashOfInts> known_;
  std::vector<int> variables_, key_;  // of the sum that is looked at
};

}  // namespace

int BestState(int variable, std::span<const CostTable* const> tables, std::span<const int> states,
              std::vector<int>& assignment) {
  std::vector<double> sums(states[variable], 0);
  for (int s = 0; s < states[variable]; ++s) {
    assignment[variable] = s;
    for (const CostTable* table : tables) sums[s] += EntryOf(*table, states, assignment);
  }
  const double least = *std::min_element(sums.begin(), sums.end());
  const double scale = least < 0 ? -least : least;
  for (int s = 0; s < states[variable]; ++s)
    if (sums[s] <= least + kSame * scale) return s;
  return 0;  // not reached: the least sum qualifies
}

Eliminated Eliminate(CostModel model, std::span<const int> order, double max_joint) {
  model.tables.reserve(model.tables.size() + order.size());
  Buckets buckets(model, order, max_joint);
  LeastSums sums(model);
  Eliminated result;
  for (const CostTable& table : model.tables)
    if (table.variables.empty()) result.bound += table.costs[0];
  for (size_t place = 0; place < order.size(); ++place) {
    const int v = order[place];
    std::vector<Group> groups = buckets.Groups(place);
    result.is_exact &= groups.size() <= 1;
    for (Group& group : groups) {
      const int added = static_cast<int>(model.tables.size());
      const CostTable& least = sums.Add(v, group.tables);
      group.scope.erase(std::find(group.scope.begin(), group.scope.end(), v));
      if (!buckets.Add(added, std::move(group.scope))) result.bound += least.costs[0];
    }
  }
  result.assignment.assign(model.states.size(), 0);
  for (size_t place = order.size(); place-- > 0;) {
    std::vector<const CostTable*> tables;
    for (int t : buckets.Tables(place)) tables.push_back(&model.tables[t]);
    result.assignment[order[place]] = BestState(order[place], tables, model.states, result.assignment);
  }
  return result;
}

double EntriesToEliminate(const CostModel& model, std::span<const int> order, double max_joint) {
  Buckets buckets(model, order, max_joint);
  int num_tables = static_cast<int>(model.tables.size());
  double entries = 0;
  for (size_t place = 0; place < order.size(); ++place) {
    for (Group& group : buckets.Groups(place)) {
      entries += Combinations(group.scope, model.states);
      group.scope.erase(std::find(group.scope.begin(), group.scope.end(), order[place]));
      buckets.Add(num_tables++, std::move(group.scope));
    }
  }
  return entries;
}

}  // namespace meshwork
