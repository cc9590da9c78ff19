#include "meshwork/spmd/solver/condense.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <tuple>
#include <utility>

#include "meshwork/spmd/solver/elimination.h"
#include "meshwork/spmd/solver/min_out.h"

namespace meshwork {
namespace {

class Condenser {
 public:
  Condenser(CostModel model, double max_joint, double max_made)
      : max_joint_(max_joint), max_made_(max_made), of_(TablesOf(model)), version_(model.states.size(), 0) {
    result_.states = model.states;
    result_.model = std::move(model);
    gone_.assign(result_.model.tables.size(), false);
  }

  Condensed Run() && {
    for (size_t v = 0; v < of_.size(); ++v) Push(static_cast<int>(v));
    while (!queue_.empty()) {
      const auto [joint, v, version] = queue_.top();
      queue_.pop();
      if (version != version_[v]) continue;
      result_.entries += joint;
      TakeOut(v);
    }
    std::vector<CostTable> left;
    for (size_t t = 0; t < gone_.size(); ++t)
      if (!gone_[t]) left.push_back(std::move(result_.model.tables[t]));
    result_.model.tables = std::move(left);
    return std::move(result_);
  }

 private:
  std::vector<CostTable>& tables() { return result_.model.tables; }

  std::vector<int> Around(int v) {
    std::vector<int> around;
    for (int t : of_[v])
      around.insert(around.end(), tables()[t].variables.begin(), tables()[t].variables.end());
    std::sort(around.begin(), around.end());
    around.erase(std::unique(around.begin(), around.end()), around.end());
    return around;
  }

  // Puts `v` into the queue, if it may be eliminated.
  void Push(int v) {
    ++version_[v];
    if (of_[v].empty()) return;
    const double joint = Combinations(Around(v), result_.model.states);
    double entries = 0;
    for (int t : of_[v]) entries += static_cast<double>(tables()[t].costs.size());
    if (joint <= max_joint_ && joint / result_.model.states[v] <= std::max(max_made_, entries))
      queue_.emplace(joint, v, version_[v]);
  }

  void TakeOut(int v) {
    const std::vector<int> around = Around(v);
    std::vector<const CostTable*> of_v;
    for (int t : of_[v]) of_v.push_back(&tables()[t]);
    CostTable least = MinOut(v, of_v, result_.model.states);
    Condensed::Step step{v, {}};
    const auto removed = std::move(of_[v]);
    for (int t : removed) {
      for (int u : tables()[t].variables)
        if (u != v) of_[u].erase(std::find(of_[u].begin(), of_[u].end(), t));
      step.tables.push_back(std::move(tables()[t]));
      gone_[t] = true;
    }
    of_[v].clear();
    result_.model.states[v] = 1;
    result_.steps.push_back(std::move(step));
    const int made = static_cast<int>(tables().size());
    for (int u : least.variables) of_[u].push_back(made);
    tables().push_back(std::move(least));
    gone_.push_back(false);
    for (int u : around)
      if (u != v) Push(u);
  }

  using Entry = std::tuple<double, int, int>;  // combinations, variable, version

  const double max_joint_, max_made_;
  Condensed result_;
  TablesOfEach of_;         // the tables of a variable
  std::vector<bool> gone_;  // per table
  std::vector<int> version_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
};

}  // namespace

std::vector<int> Condensed::Original(std::vector<int> assignment) const {
  for (size_t i = steps.size(); i-- > 0;) {
    std::vector<const CostTable*> tables;
    for (const CostTable& table : steps[i].tables) tables.push_back(&table);
    assignment[steps[i].variable] = BestState(steps[i].variable, tables, states, assignment);
  }
  return assignment;
}

std::vector<int> Condensed::Into(std::vector<int> original) const {
  for (const Step& step : steps) original[step.variable] = 0;
  return original;
}

Condensed Condense(CostModel model, double max_joint, double max_made) {
  return Condenser(std::move(model), max_joint, max_made).Run();
}

}  // namespace meshwork
