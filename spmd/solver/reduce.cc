#include "meshwork/spmd/solver/reduce.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <numeric>
#include <unordered_map>
#include <utility>

namespace meshwork {
namespace {

// A variable's states are compared only if that takes at most so many steps. It takes about as many as its elimination.
constexpr double kMaxCompared = 1 << 16;

// How often the states of a variable are compared, again after others lost states. Later visits drop forbidden states
// only.
constexpr int kMaxVisits = 8;

// Sums of tables differ by rounding by less than this times their largest costs. A state must be worse than a later one
// by more than that, so that the first of equals is kept.
constexpr double kRounding = 1e-14;

// Facts of a table about the states of one of its variables.
struct StateFacts {
  std::vector<double> least;  // per state
  // [a, b]: the most that state b costs more than a, over combinations that allow a; empty: not computed yet.
  std::vector<double> most;
};

// The facts of tables. Those of equal tables, as repeated layers have, are computed once.
class KnownTables {
 public:
  int NumberOf(const CostTable& table, std::span<const int> states) {
    return Known(kinds_.NumberOf(table, states));
  }

  // compares: computes `most`, too.
  const StateFacts& FactsOf(int number, size_t position, bool compares) {
    StateFacts& facts = asked_[number].facts[position];
    const std::vector<double>& list = costs(number).list();
    if (facts.least.empty()) facts.least = LeastPerState(list, AroundOf(number, position));
    if (compares && facts.most.empty()) facts.most = MostOf(list, AroundOf(number, position));
    return facts;
  }
  // The largest absolute value of a finite entry.
  double LargestOf(int number) const { return asked_[number].largest; }
  const CostList& costs(int number) const { return kinds_[number].costs; }

  // The costs of the first table that is equal.
  const CostList& Shared(const CostTable& table, std::span<const int> states) {
    return costs(NumberOf(table, states));
  }

  // The sum of `terms`, a table over `scope`. REQUIRES: all variables of `terms` are in `scope`.
  CostList Sum(std::span<const int> scope, std::span<const CostTable* const> terms,
               std::span<const int> states) {
    key_.clear();
    for (const CostTable* term : terms) {
      key_.push_back(NumberOf(*term, states));
      for (int v : term->variables)
        key_.push_back(static_cast<int>(std::find(scope.begin(), scope.end(), v) - scope.begin()));
    }
    const auto [known, is_new] = sums_.try_emplace(key_);
    if (!is_new) return known->second;
    std::vector<double> sum(static_cast<size_t>(Combinations(scope, states)), 0);
    for (const CostTable* term : terms) AddBroadcast(*term, scope, states, sum);
    known->second = Shared({{scope.begin(), scope.end()}, std::move(sum)}, states);
    return known->second;
  }

  // The number of the table that is left without the states in `drop` of the variable at `position`.
  int Without(int number, size_t position, const std::vector<bool>& drop) {
    const auto num_kept = static_cast<size_t>(std::count(drop.begin(), drop.end(), false));
    const AroundVariable around = AroundOf(number, position);
    std::vector<double> left(around.before * num_kept * around.after);
    const double* row = costs(number).data();
    double* out = left.data();
    for (size_t before = 0; before < around.before; ++before)
      for (size_t s = 0; s < around.states; ++s, row += around.after)
        if (!drop[s]) out = std::copy(row, row + around.after, out);
    std::vector<int> sizes = kinds_[number].sizes;
    sizes[position] = static_cast<int>(num_kept);
    return Known(kinds_.NumberOf(CostList(std::move(left)), std::move(sizes)));
  }

 private:
  struct Asked {
    double largest = 0;
    std::vector<StateFacts> facts;  // per variable
  };

  int Known(int number) {
    if (number < static_cast<int>(asked_.size())) return number;
    Asked& asked = asked_.emplace_back();
    asked.facts.resize(kinds_[number].sizes.size());
    for (double cost : costs(number))
      if (cost != kNever) asked.largest = std::max(asked.largest, std::abs(cost));
    return number;
  }

  AroundVariable AroundOf(int number, size_t position) const {
    return Around(kinds_[number].sizes, position);
  }

  static std::vector<double> MostOf(std::span<const double> costs, const AroundVariable& around) {
    const auto [before, n, after] = around;
    std::vector<double> most(n * n, -kNever), row(n);
    for (size_t i = 0; i < before; ++i) {
      for (size_t j = 0; j < after; ++j) {
        for (size_t s = 0; s < n; ++s) row[s] = costs[(i * n + s) * after + j];
        for (size_t a = 0; a < n; ++a) {
          const double cost = row[a];
          if (cost == kNever) continue;  // where a may not be, b need not be better
          double* __restrict of_a = most.data() + a * n;
          for (size_t b = 0; b < n; ++b) of_a[b] = row[b] - cost > of_a[b] ? row[b] - cost : of_a[b];
        }
      }
    }
    return most;
  }

  TableKinds kinds_;
  std::vector<Asked> asked_;  // per kind
  // Sums that were made, by the numbers of their terms and the places of the terms' variables in the scope.
  std::unordered_map<std::vector<int>, CostList, HashOfInts> sums_;
  std::vector<int> key_;  // of the sum that is looked for
};

class Reducer {
 public:
  Reducer(CostModel model, std::vector<bool> keeps) : keeps_(std::move(keeps)) {
    result_.model = std::move(model);
    keeps_.resize(states().size(), false);
    for (int states : result_.model.states) {
      result_.kept.emplace_back(states);
      std::iota(result_.kept.back().begin(), result_.kept.back().end(), 0);
    }
    for (CostTable& table : tables()) {
      table.costs = known_.Shared(table, states());
      if (std::is_sorted(table.variables.begin(), table.variables.end())) continue;
      std::vector<int> order = table.variables;
      std::sort(order.begin(), order.end());
      const CostTable* const term = &table;
      table.costs = known_.Sum(order, {&term, 1}, states());
      table.variables = std::move(order);
    }
  }

  Reduced Run() && {
    LeaveOutDecided();
    Absorb();
    DropStates(/*compares=*/true);
    LeaveOutDecided();
    // Tables that have become one may forbid more than each of them.
    while (Absorb()) {
      DropStates(/*compares=*/false);
      LeaveOutDecided();
    }
    return std::move(result_);
  }

 private:
  // A state that is never better than `instead`; -1: it is forbidden altogether.
  struct Worse {
    int state, instead;
  };

  // The worse states of a variable, and what is left of it and its tables without them.
  struct Looked {
    std::vector<Worse> worse;
    std::vector<int> kept;   // states
    std::vector<int> kinds;  // of its tables
  };

  std::vector<CostTable>& tables() { return result_.model.tables; }
  const std::vector<int>& states() const { return result_.model.states; }

  // Drops worse states until it finds no more.
  void DropStates(bool compares) {
    of_ = TablesOf(result_.model);
    kinds_.clear();
    for (const CostTable& table : tables()) kinds_.push_back(known_.NumberOf(table, states()));
    DropWorse(compares);
    for (size_t t = 0; t < kinds_.size(); ++t) tables()[t].costs = known_.costs(kinds_[t]);
  }

  void DropWorse(bool compares) {
    std::vector<int> visits(states().size(), 0);
    std::vector<bool> waits(states().size(), true);
    std::deque<int> queue(states().size());
    std::iota(queue.begin(), queue.end(), 0);
    while (!queue.empty()) {
      const int v = queue.front();
      queue.pop_front();
      waits[v] = false;
      if (keeps_[v]) continue;
      const Looked& looked = Look(v, compares && ++visits[v] <= kMaxVisits);
      if (looked.worse.empty()) continue;
      Drop(v, looked);
      if (states()[v] == 0) return;
      for (int t : of_[v]) {
        for (int u : tables()[t].variables) {
          if (waits[u]) continue;
          waits[u] = true;
          queue.push_back(u);
        }
      }
    }
  }

  static size_t PositionOf(int v, const CostTable& table) {
    return std::find(table.variables.begin(), table.variables.end(), v) - table.variables.begin();
  }

  // Finds the worse states of a variable. If an earlier variable had equal tables, reuses its result.
  const Looked& Look(int v, bool compares) {
    key_.assign({compares ? 1 : 0, states()[v]});
    for (int t : of_[v]) {
      key_.push_back(kinds_[t]);
      key_.push_back(static_cast<int>(PositionOf(v, tables()[t])));
    }
    if (const auto known = looked_.find(key_); known != looked_.end()) return known->second;
    Looked& looked = looked_[key_];
    looked.worse = WorseStates(v, compares);
    if (looked.worse.empty()) return looked;
    std::vector<bool> drop(static_cast<size_t>(states()[v]), false);
    for (const Worse& one : looked.worse) drop[one.state] = true;
    for (int t : of_[v]) looked.kinds.push_back(known_.Without(kinds_[t], PositionOf(v, tables()[t]), drop));
    for (int s = 0; s < states()[v]; ++s)
      if (!drop[s]) looked.kept.push_back(s);
    return looked;
  }

  std::vector<Worse> WorseStates(int v, bool compares) {
    const int n = states()[v];
    std::vector<bool> drop(n, false);
    std::vector<Worse> worse;
    auto mark = [&](int state, int instead) {
      if (!drop[state]) worse.push_back({state, instead});
      drop[state] = true;
    };
    double steps = 0, rounding = 0;
    for (int t : of_[v]) {
      const StateFacts& facts = known_.FactsOf(kinds_[t], PositionOf(v, tables()[t]), /*compares=*/false);
      for (int s = 0; s < n; ++s)
        if (facts.least[s] == kNever) mark(s, -1);
      steps += static_cast<double>(known_.costs(kinds_[t]).size()) * n;
    }
    if (n == 1 || !compares || steps > kMaxCompared) return worse;
    // more[a * n + b]: the most that b costs more than a.
    std::vector<double> more(static_cast<size_t>(n) * n, 0);
    for (int t : of_[v]) {
      const StateFacts& facts = known_.FactsOf(kinds_[t], PositionOf(v, tables()[t]), /*compares=*/true);
      for (size_t i = 0; i < more.size(); ++i) {
        const double sum = more[i] + facts.most[i];
        more[i] = more[i] == kNever ? kNever : sum;
      }
      rounding += kRounding * known_.LargestOf(kinds_[t]);
    }
    for (int a = 0; a < n; ++a)
      for (int b = 0; b < n && !drop[a]; ++b)
        if ((b < a ? more[a * n + b] <= 0 : more[a * n + b] < -rounding) && !drop[b] && a != b) mark(a, b);
    return worse;
  }

  void Drop(int v, const Looked& looked) {
    std::vector<int>& kept = result_.kept[v];
    for (const auto [state, instead] : looked.worse)
      result_.dropped.push_back({v, kept[state], instead < 0 ? -1 : kept[instead]});
    for (size_t i = 0; i < looked.kinds.size(); ++i) kinds_[of_[v][i]] = looked.kinds[i];
    for (size_t s = 0; s < looked.kept.size(); ++s) kept[s] = kept[looked.kept[s]];
    kept.resize(looked.kept.size());
    result_.model.states[v] = static_cast<int>(kept.size());
  }

  void LeaveOutDecided() {
    for (CostTable& table : tables()) {
      auto decided = [&](int v) { return states()[v] == 1; };
      table.variables.erase(std::remove_if(table.variables.begin(), table.variables.end(), decided),
                            table.variables.end());
    }
  }

  // Adds each table to one that has all of its variables. Returns true if this may forbid further states.
  bool Absorb() {
    std::vector<size_t> by_rank(tables().size());
    std::iota(by_rank.begin(), by_rank.end(), size_t{0});
    std::stable_sort(by_rank.begin(), by_rank.end(), [&](size_t a, size_t b) {
      return tables()[a].variables.size() < tables()[b].variables.size();
    });
    const TablesOfEach of = TablesOf(result_.model);
    std::vector<bool> gone(tables().size(), false);
    std::vector<std::vector<const CostTable*>> added(tables().size());  // to a table, once its turn has come
    bool forbids = false;
    double constant = 0;
    for (size_t t : by_rank) {
      CostTable& table = tables()[t];
      if (!added[t].empty()) {
        added[t].insert(added[t].begin(), &table);
        table.costs = known_.Sum(table.variables, added[t], states());
      }
      if (table.variables.empty()) {
        constant += table.costs[0];
        gone[t] = true;
        continue;
      }
      int rarest = table.variables[0];
      for (int v : table.variables)
        if (of[v].size() < of[rarest].size()) rarest = v;
      for (int other : of[rarest]) {
        const CostTable& home = tables()[other];
        if (static_cast<size_t>(other) == t || gone[other] ||
            !std::includes(home.variables.begin(), home.variables.end(), table.variables.begin(),
                           table.variables.end()))
          continue;
        forbids |= table.variables.size() > 1 &&
                   std::find(table.costs.begin(), table.costs.end(), kNever) != table.costs.end();
        added[other].push_back(&table);
        gone[t] = true;
        break;
      }
    }
    std::vector<CostTable> left;
    if (constant != 0) left.push_back({{}, {constant}});
    for (size_t t = 0; t < tables().size(); ++t)
      if (!gone[t]) left.push_back(std::move(tables()[t]));
    tables() = std::move(left);
    return forbids;
  }

  std::vector<bool> keeps_;  // per variable: all its states
  Reduced result_;
  TablesOfEach of_;  // the tables of a variable
  KnownTables known_;
  std::vector<int> kinds_;  // per table: its number in known_
  // Results of Look. Key: whether states are compared, how many there are, and per table of the variable the number of
  // the table and the variable's place in it.
  std::unordered_map<std::vector<int>, Looked, HashOfInts> looked_;
  std::vector<int> key_;  // of the variable that is looked at
};

}  // namespace

bool Reduced::IsInfeasible() const {
  const auto forbids = [](const CostTable& table) {
    return table.variables.empty() && table.costs[0] == kNever;
  };
  return std::find(model.states.begin(), model.states.end(), 0) != model.states.end() ||
         std::any_of(model.tables.begin(), model.tables.end(), forbids);
}

std::vector<int> Reduced::Into(std::vector<int> original) const {
  for (const Dropped& one : dropped)
    if (original[one.variable] == one.state)
      original[one.variable] = one.instead >= 0 ? one.instead : kept[one.variable][0];
  for (size_t v = 0; v < kept.size(); ++v) {
    const auto at = std::lower_bound(kept[v].begin(), kept[v].end(), original[v]);
    original[v] = static_cast<int>(at - kept[v].begin());
  }
  return original;
}

std::vector<int> Reduced::Original(const std::vector<int>& assignment) const {
  std::vector<int> original;
  for (size_t v = 0; v < kept.size(); ++v) original.push_back(kept[v][assignment[v]]);
  return original;
}

Reduced Reduce(CostModel model, std::vector<bool> keeps) {
  return Reducer(std::move(model), std::move(keeps)).Run();
}

}  // namespace meshwork
