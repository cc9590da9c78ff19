#include "meshwork/spmd/search/reduce.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <deque>
#include <map>
#include <numeric>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace meshwork {
namespace {

// A variable's states are compared where that takes at most so many steps: about as many as to eliminate it, else.
constexpr double kMaxCompared = 1 << 16;

// How often a variable is looked at again after others lost states.
constexpr int kMaxVisits = 8;

// Sums of tables differ by rounding by less than this times their largest costs. A state must be worse than a later one by
// more than that, so that the first of equals is kept.
constexpr double kRounding = 1e-14;

// What is asked of a table about the states of one of its variables.
struct StateFacts {
  std::vector<double> least;  // per state
  // [a, b]: the most that state b costs more than a, where a may be; empty: not asked yet.
  std::vector<double> most;
};

// Tables that are equal, as those of layers are that repeat, are asked once.
class KnownTables {
 public:
  // sizes: the states of its variables.
  int NumberOf(const CostTable& table, std::vector<int> sizes) {
    uint64_t hash = table.costs.size();
    for (int size : sizes) hash = Mixed(hash, static_cast<uint64_t>(size));
    for (double cost : table.costs) hash = Mixed(hash, std::bit_cast<uint64_t>(cost));
    std::vector<int>& same = of_hash_[hash];
    for (int k : same)
      if (kinds_[k].table.costs == table.costs && kinds_[k].sizes == sizes) return k;
    same.push_back(static_cast<int>(kinds_.size()));
    Kind& kind = kinds_.emplace_back();
    kind.table.costs = table.costs;
    kind.table.variables.resize(sizes.size());
    std::iota(kind.table.variables.begin(), kind.table.variables.end(), 0);
    for (double cost : table.costs)
      if (cost != kNever) kind.largest = std::max(kind.largest, std::abs(cost));
    kind.facts.resize(sizes.size());
    kind.sizes = std::move(sizes);
    return same.back();
  }

  // compares: `most` is asked for, too.
  const StateFacts& FactsOf(int number, size_t position, bool compares) {
    Kind& kind = kinds_[number];
    StateFacts& facts = kind.facts[position];
    if (facts.least.empty()) facts.least = LeastPerState(kind.table, position, kind.sizes);
    if (compares && facts.most.empty()) facts.most = MostOf(kind, position);
    return facts;
  }
  // The largest amount of a finite entry.
  double LargestOf(int number) const { return kinds_[number].largest; }
  const std::vector<double>& CostsOf(int number) const { return kinds_[number].table.costs; }

  // The number of what is left without some states of the variable at `position`.
  int Without(int number, size_t position, const std::vector<bool>& drop) {
    const auto [known, is_new] = without_.try_emplace({number, position, drop}, 0);
    if (!is_new) return known->second;
    const auto num_kept = static_cast<size_t>(std::count(drop.begin(), drop.end(), false));
    const Kind& kind = kinds_[number];
    const AroundVariable around = Around(kind.table, position, kind.sizes);
    CostTable left{{}, std::vector<double>(around.before * num_kept * around.after)};
    const double* row = kind.table.costs.data();
    double* out = left.costs.data();
    for (size_t before = 0; before < around.before; ++before)
      for (size_t s = 0; s < around.states; ++s, row += around.after)
        if (!drop[s]) out = std::copy(row, row + around.after, out);
    std::vector<int> sizes = kind.sizes;
    sizes[position] = static_cast<int>(num_kept);
    return known->second = NumberOf(left, std::move(sizes));
  }

 private:
  struct Kind {
    CostTable table;         // its variables are numbered in their order
    std::vector<int> sizes;  // the states of each
    double largest = 0;
    std::vector<StateFacts> facts;  // per variable
  };

  static uint64_t Mixed(uint64_t hash, uint64_t word) {
    return (std::rotl(hash, 23) ^ word) * uint64_t{0x9E3779B97F4A7C15};
  }

  static std::vector<double> MostOf(const Kind& kind, size_t position) {
    const auto [before, n, after] = Around(kind.table, position, kind.sizes);
    std::vector<double> most(n * n, -kNever), row(n);
    for (size_t i = 0; i < before; ++i) {
      for (size_t j = 0; j < after; ++j) {
        for (size_t s = 0; s < n; ++s) row[s] = kind.table.costs[(i * n + s) * after + j];
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

  std::vector<Kind> kinds_;
  std::map<std::tuple<int, size_t, std::vector<bool>>, int> without_;
  std::unordered_map<uint64_t, std::vector<int>> of_hash_;
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
      if (std::is_sorted(table.variables.begin(), table.variables.end())) continue;
      std::vector<int> order = table.variables;
      std::sort(order.begin(), order.end());
      table = Reordered(table, std::move(order), states());
    }
  }

  Reduced Run() && {
    // Tables that have become one may forbid more than each of them.
    do {
      LeaveOutDecided();
      Absorb();
    } while (DropStates() && !result_.IsInfeasible());
    return std::move(result_);
  }

 private:
  // A state that is never better than another one; instead: that one, -1 if it may not be at all.
  struct Worse {
    int state, instead;
  };

  std::vector<CostTable>& tables() { return result_.model.tables; }
  const std::vector<int>& states() const { return result_.model.states; }

  // Drops what it finds, until there is nothing more. False if there was nothing.
  bool DropStates() {
    const size_t before = result_.dropped.size();
    FindKinds();
    DropWorse();
    for (size_t t = 0; t < kinds_.size(); ++t) tables()[t].costs = known_.CostsOf(kinds_[t]);
    return result_.dropped.size() > before;
  }

  void FindKinds() {
    of_ = TablesOf(result_.model);
    kinds_.clear();
    for (const CostTable& table : tables()) {
      std::vector<int> sizes;
      for (int v : table.variables) sizes.push_back(states()[v]);
      kinds_.push_back(known_.NumberOf(table, std::move(sizes)));
    }
  }

  void DropWorse() {
    std::vector<int> visits(states().size(), 0);
    std::vector<bool> waits(states().size(), true);
    std::deque<int> queue(states().size());
    std::iota(queue.begin(), queue.end(), 0);
    while (!queue.empty()) {
      const int v = queue.front();
      queue.pop_front();
      waits[v] = false;
      if (keeps_[v]) continue;
      const std::vector<Worse>& worse = Droppable(v, /*compares=*/++visits[v] <= kMaxVisits);
      if (worse.empty()) continue;
      Drop(v, worse);
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

  // Which states can be left out: as of a variable that was asked before, where the tables are equal.
  const std::vector<Worse>& Droppable(int v, bool compares) {
    std::vector<int> key = {compares ? 1 : 0, states()[v]};
    for (int t : of_[v]) {
      key.push_back(kinds_[t]);
      key.push_back(static_cast<int>(PositionOf(v, tables()[t])));
    }
    const auto [known, is_new] = worse_.try_emplace(std::move(key));
    if (is_new) known->second = WorseStates(v, compares);
    return known->second;
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
      steps += static_cast<double>(known_.CostsOf(kinds_[t]).size()) * n;
    }
    if (n == 1 || !compares || steps > kMaxCompared) return worse;
    // more[a * n + b]: the most that b costs more than a.
    std::vector<double> more(static_cast<size_t>(n) * n, 0);
    for (int t : of_[v]) {
      const StateFacts& facts = known_.FactsOf(kinds_[t], PositionOf(v, tables()[t]), /*compares=*/true);
      for (size_t i = 0; i < more.size(); ++i)
        if (more[i] != kNever) more[i] += facts.most[i];
      rounding += kRounding * known_.LargestOf(kinds_[t]);
    }
    for (int a = 0; a < n; ++a)
      for (int b = 0; b < n && !drop[a]; ++b)
        if (!drop[b] && a != b && (b < a ? more[a * n + b] <= 0 : more[a * n + b] < -rounding)) mark(a, b);
    return worse;
  }

  // States of v, which are no longer there.
  void Drop(int v, const std::vector<Worse>& worse) {
    std::vector<bool> drop(static_cast<size_t>(states()[v]), false);
    for (const auto [state, instead] : worse) {
      drop[state] = true;
      const std::vector<int>& kept = result_.kept[v];
      result_.dropped.push_back({v, kept[state], instead < 0 ? -1 : kept[instead]});
    }
    for (int t : of_[v]) kinds_[t] = known_.Without(kinds_[t], PositionOf(v, tables()[t]), drop);
    std::vector<int> kept;
    for (size_t s = 0; s < drop.size(); ++s)
      if (!drop[s]) kept.push_back(result_.kept[v][s]);
    result_.model.states[v] = static_cast<int>(kept.size());
    result_.kept[v] = std::move(kept);
  }

  void LeaveOutDecided() {
    for (CostTable& table : tables()) {
      auto decided = [&](int v) { return states()[v] == 1; };
      table.variables.erase(std::remove_if(table.variables.begin(), table.variables.end(), decided),
                            table.variables.end());
    }
  }

  // Adds each table to one that has all of its variables.
  void Absorb() {
    std::vector<size_t> by_rank(tables().size());
    std::iota(by_rank.begin(), by_rank.end(), size_t{0});
    std::stable_sort(by_rank.begin(), by_rank.end(), [&](size_t a, size_t b) {
      return tables()[a].variables.size() < tables()[b].variables.size();
    });
    const std::vector<std::vector<int>> of = TablesOf(result_.model);
    std::vector<bool> gone(tables().size(), false);
    double constant = 0;
    for (size_t t : by_rank) {
      const CostTable& table = tables()[t];
      if (table.variables.empty()) {
        constant += table.costs[0];
        gone[t] = true;
        continue;
      }
      const std::vector<int>* fewest = &of[table.variables[0]];
      for (int v : table.variables)
        if (of[v].size() < fewest->size()) fewest = &of[v];
      for (int other : *fewest) {
        CostTable& home = tables()[other];
        if (static_cast<size_t>(other) == t || gone[other] ||
            !std::includes(home.variables.begin(), home.variables.end(), table.variables.begin(),
                           table.variables.end()))
          continue;
        AddBroadcast(table, home.variables, states(), home.costs);
        gone[t] = true;
        break;
      }
    }
    std::vector<CostTable> left;
    if (constant != 0) left.push_back({{}, {constant}});
    for (size_t t = 0; t < tables().size(); ++t)
      if (!gone[t]) left.push_back(std::move(tables()[t]));
    tables() = std::move(left);
  }

  std::vector<bool> keeps_;  // per variable: all its states
  Reduced result_;
  std::vector<std::vector<int>> of_;  // the tables of a variable
  KnownTables known_;
  std::vector<int> kinds_;  // per table: its number in known_
  // By whether states are compared, how many, and per table of a variable, its number and the variable's place in it.
  std::map<std::vector<int>, std::vector<Worse>> worse_;
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
