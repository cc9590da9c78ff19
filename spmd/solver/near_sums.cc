#include "meshwork/spmd/solver/near_sums.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "meshwork/spmd/solver/cost_model.h"
#include "meshwork/spmd/solver/elimination.h"
#include "meshwork/spmd/solver/elimination_order.h"
#include "meshwork/spmd/solver/min_out.h"
#include "meshwork/spmd/solver/reduce.h"

namespace meshwork {
namespace {

// The states that each variable may have. Near a change these are its usual states, and those of the change if it is
// changed itself; far from it, a single state.
class AllowedStates {
 public:
  AllowedStates(const StateLists& usual, const std::vector<int>& far) : usual_(usual), far_(far) {}

  void Allow(int v) { near_.try_emplace(v, usual_[v]); }
  std::vector<int>& Near(int v) { return near_.at(v); }
  std::span<const int> operator[](int v) const {
    const auto found = near_.find(v);
    return found != near_.end() ? std::span(found->second) : std::span(far_).subspan(v, 1);
  }

 private:
  const StateLists& usual_;
  const std::vector<int>& far_;
  std::unordered_map<int, std::vector<int>> near_;
};

// The entries of a table in which all variables have allowed states, in the order of these states.
CostTable EntriesIn(const CostTable& table, const AllowedStates& may, std::span<const int> states) {
  std::vector<double> part = table.costs.list(), costs;
  size_t before = 1, after = table.costs.size();
  for (int v : table.variables) {
    const auto n = static_cast<size_t>(states[v]);
    after /= n;
    costs.clear();
    for (size_t i = 0; i < before; ++i) {
      for (int s : may[v]) {
        const double* row = part.data() + (i * n + static_cast<size_t>(s)) * after;
        costs.insert(costs.end(), row, row + after);
      }
    }
    part.swap(costs);
    before *= may[v].size();
  }
  return {table.variables, std::move(part)};
}

// A problem of some of the variables of another one.
class PartOfProblem {
 public:
  // may: the states that the other problem's variables may have; variables of one such state are left out.
  PartOfProblem(const CostModel& problem, const AllowedStates& may) : problem_(problem), may_(may) {}

  int IndexOf(int v) {
    const auto [known, is_new] = index_.try_emplace(v, 0);
    if (is_new) known->second = AddVariable(static_cast<int>(may_[v].size()));
    return known->second;
  }
  int AddVariable(int states) {
    model_.states.push_back(states);
    return static_cast<int>(model_.states.size()) - 1;
  }
  void AddTableOf(int t) {
    CostTable table = EntriesIn(problem_.tables[t], may_, problem_.states);
    std::erase_if(table.variables, [&](int v) { return may_[v].size() == 1; });
    for (int& v : table.variables) v = IndexOf(v);
    model_.tables.push_back(std::move(table));
  }
  void AddTable(CostTable table) { model_.tables.push_back(std::move(table)); }
  CostModel& model() { return model_; }

 private:
  const CostModel& problem_;
  const AllowedStates& may_;
  std::unordered_map<int, int> index_;
  CostModel model_;
};

// Per state of `last`: the least sum with that state; empty if that looks at more than max_entries combinations.
std::vector<double> LeastByState(CostModel model, int last, double max_entries) {
  EliminationOrder found = FindOrder(model, max_entries, /*few=*/max_entries / 8);
  if (found.entries > max_entries) return {};  // it is not complete
  std::vector<int> order = std::move(found.order);
  std::erase(order, last);
  if (EntriesToEliminate(model, order, kNever) > max_entries) return {};
  TablesOfEach of = TablesOf(model);
  std::vector<bool> gone(model.tables.size(), false);
  for (int v : order) {
    std::vector<const CostTable*> tables;
    for (int t : of[v]) {
      if (gone[t]) continue;
      tables.push_back(&model.tables[t]);
      gone[t] = true;
    }
    CostTable left = MinOut(v, tables, model.states);
    for (int u : left.variables) of[u].push_back(static_cast<int>(model.tables.size()));
    model.tables.push_back(std::move(left));
    gone.push_back(false);
  }
  std::vector<double> least(model.states[last], 0);
  for (size_t t = 0; t < gone.size(); ++t)
    for (size_t s = 0; !gone[t] && s < least.size(); ++s)
      least[s] += model.tables[t].costs[model.tables[t].variables.empty() ? 0 : s];
  return least;
}

}  // namespace

NearSums::NearSums(const MinSum& problem, StateLists usual) : usual_(std::move(usual)) {
  for (size_t v = 0; v < usual_.size(); ++v) {
    is_held_.push_back(static_cast<int>(usual_[v].size()) < problem.states(static_cast<int>(v)));
    far_.push_back(usual_[v][0]);
  }
  reduced_ = Reduce(problem.model(), is_held_);
  if (reduced_.IsInfeasible()) return;
  far_ = reduced_.Into(std::move(far_));
  for (size_t v = 0; v < usual_.size(); ++v) {
    if (is_held_[v]) continue;
    usual_[v].resize(reduced_.kept[v].size());
    std::iota(usual_[v].begin(), usual_[v].end(), 0);
  }
  tables_of_ = TablesOf(reduced_.model);
}

std::vector<int> NearSums::NearTo(std::span<const int> variables, size_t near) const {
  std::vector<int> reached(variables.begin(), variables.end()), next, all = reached;
  std::unordered_set<int> is_near(reached.begin(), reached.end());
  for (size_t count = 0; count < near && !reached.empty(); reached.swap(next)) {
    next.clear();
    for (int v : reached) {
      for (int t : tables_of_[v]) {
        for (int u : reduced_.model.tables[t].variables) {
          if (!is_near.insert(u).second) continue;
          all.push_back(u);
          ++count;
          if (!is_held_[u]) next.push_back(u);
        }
      }
    }
  }
  return all;
}

std::vector<double> NearSums::MoreWith(std::span<const int> variables, const std::vector<StateLists>& changes,
                                       size_t near, double max_entries) const {
  if (reduced_.IsInfeasible()) return std::vector<double>(changes.size(), kNever);
  const std::vector<int> near_these = NearTo(variables, near);
  AllowedStates may(usual_, far_);
  std::vector<int> tables;
  for (int v : near_these) {
    may.Allow(v);
    tables.insert(tables.end(), tables_of_[v].begin(), tables_of_[v].end());
  }
  std::sort(tables.begin(), tables.end());
  tables.erase(std::unique(tables.begin(), tables.end()), tables.end());
  for (size_t i = 0; i < variables.size(); ++i)
    for (const StateLists& change : changes)
      may.Near(variables[i]).insert(may.Near(variables[i]).end(), change[i].begin(), change[i].end());

  PartOfProblem part(reduced_.model, may);
  const int which = part.AddVariable(static_cast<int>(changes.size()) + 1);  // 0: as usual
  for (int t : tables) part.AddTableOf(t);
  for (size_t i = 0; i < variables.size(); ++i) {
    std::vector<int> scope = {which};
    if (may[variables[i]].size() > 1) scope.push_back(part.IndexOf(variables[i]));
    std::vector<double> costs;
    for (size_t c = 0; c <= changes.size(); ++c) {
      const auto add = [&](size_t of, size_t count) {
        costs.insert(costs.end(), count, of == c ? 0 : kNever);
      };
      add(0, usual_[variables[i]].size());
      for (size_t of = 0; of < changes.size(); ++of) add(of + 1, changes[of][i].size());
    }
    part.AddTable({std::move(scope), std::move(costs)});
  }
  std::vector<double> least = LeastByState(std::move(part.model()), which, max_entries);
  // Tries again with fewer variables near, if that makes a difference: the direct neighbours of a change are always
  // near.
  for (size_t fewer = near / 4; least.empty() && fewer > 0; fewer /= 4)
    if (NearTo(variables, fewer).size() < near_these.size())
      return MoreWith(variables, changes, fewer, max_entries);
  if (least.empty() || least[0] == kNever) return std::vector<double>(changes.size(), kNever);
  for (size_t c = 1; c < least.size(); ++c) least[c] = least[c] == kNever ? kNever : least[c] - least[0];
  least.erase(least.begin());
  return least;
}

}  // namespace meshwork
