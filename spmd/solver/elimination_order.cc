#include "meshwork/spmd/solver/elimination_order.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <queue>
#include <tuple>
#include <utility>

namespace meshwork {
namespace {

// The fills of variables with more neighbours are not counted: such a variable comes late anyway.
constexpr size_t kMaxCounted = 24;

// The variables that share a table with each variable, now and after others are eliminated.
class Neighbours {
 public:
  explicit Neighbours(const CostModel& model) : states_(model.states), of_(model.states.size()) {
    std::vector<size_t> counts(of_.size(), 0);
    for (const CostTable& table : model.tables)
      for (int u : table.variables) counts[u] += table.variables.size() - 1;
    for (size_t v = 0; v < of_.size(); ++v) of_[v].reserve(counts[v]);
    for (const CostTable& table : model.tables)
      for (int u : table.variables)
        for (int v : table.variables)
          if (u != v) of_[u].push_back(v);
    for (std::vector<int>& list : of_) {
      std::sort(list.begin(), list.end());
      list.erase(std::unique(list.begin(), list.end()), list.end());
    }
  }

  const std::vector<int>& of(int v) const { return of_[v]; }

  bool AreNeighbours(int u, int v) const { return std::binary_search(of_[u].begin(), of_[u].end(), v); }

  // Combinations of states of a variable and its neighbours.
  double Joint(int v) const { return states_[v] * Combinations(of_[v], states_); }

  // The pairs of neighbours of `v` that are not neighbours of each other, counted by their combinations of states.
  double Fills(int v) const {
    const std::vector<int>& near = of_[v];
    if (near.size() > kMaxCounted) return kNever;
    double fills = 0;
    for (size_t i = 0; i < near.size(); ++i)
      for (size_t j = i + 1; j < near.size(); ++j)
        if (!AreNeighbours(near[i], near[j]))
          fills += static_cast<double>(states_[near[i]]) * states_[near[j]];
    return fills;
  }

  // Takes `v` out. joins: its neighbours become neighbours of each other. True if some of them were not before.
  bool Remove(int v, bool joins) {
    const std::vector<int> near = std::move(of_[v]);
    of_[v].clear();
    bool filled = false;
    for (int u : near) {
      std::vector<int>& list = of_[u];
      if (!joins) {
        list.erase(std::lower_bound(list.begin(), list.end(), v));
        continue;
      }
      merged_.clear();
      std::set_union(list.begin(), list.end(), near.begin(), near.end(), std::back_inserter(merged_));
      filled |= merged_.size() > list.size() + 1;  // u itself is new
      merged_.erase(std::remove_if(merged_.begin(), merged_.end(), [&](int w) { return w == u || w == v; }),
                    merged_.end());
      list.assign(merged_.begin(), merged_.end());
    }
    return filled;
  }

 private:
  const std::vector<int>& states_;
  std::vector<std::vector<int>> of_;
  std::vector<int> merged_;
};

class GreedyOrder {
 public:
  GreedyOrder(NextVariable next, const CostModel& model) : next_(next), near_(model) {
    is_open_.assign(model.states.size(), false);
    version_.assign(model.states.size(), 0);
    for (const CostTable& table : model.tables)
      for (int v : table.variables) is_open_[v] = true;
    for (size_t v = 0; v < is_open_.size(); ++v)
      if (is_open_[v]) Push(static_cast<int>(v));
  }

  // times_fixed: empty if no variable may be fixed.
  EliminationOrder Run(double max_entries, double max_joint, std::span<const int> times_fixed, int seed) {
    EliminationOrder result;
    while (!queue_.empty()) {
      const auto [key, tie, v, version] = queue_.top();
      queue_.pop();
      if (!is_open_[v] || version != version_[v]) continue;
      const bool is_wide = near_.Joint(v) > max_joint;
      if (is_wide && !times_fixed.empty()) {
        const int fixed = InTheWayOf(v, times_fixed, seed);
        result.fixed.push_back(fixed);
        TakeOut(fixed, /*joins=*/false);
        if (fixed != v) Push(v);
        continue;
      }
      result.order.push_back(v);
      result.entries += near_.Joint(v);
      if (result.entries > max_entries) return result;
      TakeOut(v, /*joins=*/!is_wide);
    }
    return result;
  }

 private:
  using Entry = std::tuple<double, double, int, int>;  // key, key among equals, variable, version

  void Push(int v) {
    const double joint = near_.Joint(v);
    if (next_ == NextVariable::kFewestCombinations)
      queue_.emplace(joint, static_cast<double>(near_.of(v).size()), v, ++version_[v]);
    else queue_.emplace(near_.Fills(v), joint, v, ++version_[v]);
  }

  void TakeOut(int v, bool joins) {
    is_open_[v] = false;
    const std::vector<int> around = near_.of(v);
    const bool filled = near_.Remove(v, joins);
    for (int u : around) Push(u);
    if (next_ != NextVariable::kFewestFills || !filled) return;
    // A variable with two of them as neighbours may have one pair less to fill.
    std::vector<int> second;
    for (int u : around)
      if (near_.of(u).size() <= kMaxCounted)
        second.insert(second.end(), near_.of(u).begin(), near_.of(u).end());
    std::sort(second.begin(), second.end());
    for (size_t i = 1; i < second.size(); ++i)
      if (second[i] == second[i - 1] && (i == 1 || second[i - 2] != second[i])) Push(second[i]);
  }

  int InTheWayOf(int v, std::span<const int> times_fixed, int seed) const {
    int best = v;
    const auto key = [&](int u) { return std::tuple(times_fixed[u] + Noise(u, seed), -near_.Joint(u), u); };
    for (int u : near_.of(v))
      if (key(u) < key(best)) best = u;
    return best;
  }

  // 0, 1 or 2, pseudo-random, so that different variables are fixed together each time. 0 for the first two seeds.
  static int Noise(int v, int seed) {
    if (seed < 2) return 0;
    uint64_t mixed = (static_cast<uint64_t>(seed) << 32 | static_cast<uint32_t>(v)) * 0x9E3779B97F4A7C15u;
    mixed = (mixed ^ mixed >> 31) * 0xBF58476D1CE4E5B9u;
    return static_cast<int>((mixed >> 33) % 3);
  }

  const NextVariable next_;
  Neighbours near_;
  std::vector<bool> is_open_;
  std::vector<int> version_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
};

}  // namespace

EliminationOrder OrderBy(NextVariable next, const CostModel& model, double max_entries) {
  return GreedyOrder(next, model).Run(max_entries, kNever, {}, 0);
}

EliminationOrder FindOrder(const CostModel& model, double max_entries, double few) {
  EliminationOrder best = OrderBy(NextVariable::kFewestFills, model, max_entries);
  if (best.entries <= std::min(max_entries, few)) return best;
  EliminationOrder other = OrderBy(NextVariable::kFewestCombinations, model, best.entries);
  return other.entries < best.entries ? other : best;
}

std::vector<int> OrderForGroups(const CostModel& model, double max_joint) {
  return GreedyOrder(NextVariable::kFewestCombinations, model).Run(kNever, max_joint, {}, 0).order;
}

EliminationOrder OrderWithFixed(const CostModel& model, double max_joint, std::span<const int> times_fixed,
                                int seed) {
  return GreedyOrder(NextVariable::kFewestCombinations, model).Run(kNever, max_joint, times_fixed, seed);
}

}  // namespace meshwork
