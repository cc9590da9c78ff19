#include "meshwork/spmd/solver/local_search.h"

#include <algorithm>
#include <utility>

#include "meshwork/spmd/solver/elimination.h"
#include "meshwork/spmd/solver/elimination_order.h"

namespace meshwork {
namespace {

// The first steps are so small that this many can be afforded.
constexpr double kFirstSteps = 128;

// After so many steps in a row that did not help, steps grow by this factor.
constexpr int kMaxIdleSteps = 4;
constexpr double kGrowth = 4;

// A sum is better if it is less than this part of the sum before. Smaller gains may be rounding, and might never end.
constexpr double kBetter = 1 - 1e-12;

// The entries of a table in which the fixed variables have their states in `assignment`.
CostTable PartWithFixed(const CostTable& table, const std::vector<bool>& is_fixed,
                        const std::vector<int>& states, const std::vector<int>& assignment) {
  std::vector<int> left;  // variables
  size_t offset = 0, stride = 1;
  std::vector<size_t> strides, sizes;
  for (size_t p = table.variables.size(); p-- > 0;) {
    const int v = table.variables[p];
    if (is_fixed[v]) {
      offset += stride * static_cast<size_t>(assignment[v]);
    } else {
      left.push_back(v);
      strides.push_back(stride);
      sizes.push_back(static_cast<size_t>(states[v]));
    }
    stride *= static_cast<size_t>(states[v]);
  }
  if (left.size() == table.variables.size()) return table;
  // The last variable is first in these lists.
  size_t size = 1;
  for (size_t s : sizes) size *= s;
  std::vector<double> costs;
  costs.reserve(size);
  std::vector<size_t> at(sizes.size(), 0);
  for (size_t i = 0; i < size; ++i) {
    costs.push_back(table.costs[offset]);
    for (size_t d = 0; d < at.size(); ++d) {
      offset += strides[d];
      if (++at[d] < sizes[d]) break;
      offset -= strides[d] * sizes[d];
      at[d] = 0;
    }
  }
  std::reverse(left.begin(), left.end());
  return {std::move(left), std::move(costs)};
}

class LocalSearch {
 public:
  LocalSearch(const CostModel& model, double max_entries, double& entries)
      : model_(model), end_(entries + max_entries), entries_(entries), times_fixed_(model.states.size(), 0) {
    max_joint_ = std::max(1.0, max_entries / kFirstSteps);
    while (max_joint_ > 1 && NextOrder().entries * kFirstSteps > max_entries) max_joint_ /= kGrowth;
  }

  double Run(double goal, std::vector<int>& assignment) {
    double sum = SumOf(model_, assignment);
    int idle = 0;
    while (sum > goal) {
      if (idle == kMaxIdleSteps) {
        idle = 0;
        max_joint_ *= kGrowth;
      }
      const EliminationOrder order = NextOrder();
      if (entries_ + order.entries > end_ || order.entries > kMostExact) break;
      for (int v : order.fixed) ++times_fixed_[v];
      std::vector<int> next = Step(order, assignment);
      const double next_sum = SumOf(model_, next);
      ++idle;
      if (next_sum < sum * kBetter) {
        idle = 0;
        sum = next_sum;
        assignment = std::move(next);
      }
      if (order.fixed.empty()) break;  // nothing was fixed: the sum is the least
      ++num_steps_;
    }
    return sum;
  }

 private:
  EliminationOrder NextOrder() const { return OrderWithFixed(model_, max_joint_, times_fixed_, num_steps_); }

  std::vector<int> Step(const EliminationOrder& order, const std::vector<int>& assignment) {
    entries_ += order.entries;
    std::vector<bool> is_fixed(model_.states.size(), false);
    for (int v : order.fixed) is_fixed[v] = true;
    CostModel part{model_.states, {}};
    for (const CostTable& table : model_.tables) {
      part.tables.push_back(PartWithFixed(table, is_fixed, model_.states, assignment));
      entries_ += static_cast<double>(part.tables.back().costs.size());
    }
    const Eliminated eliminated = Eliminate(std::move(part), order.order);
    std::vector<int> next = assignment;
    for (int v : order.order) next[v] = eliminated.assignment[v];
    return next;
  }

  const CostModel& model_;
  const double end_;  // of entries_
  double& entries_;
  double max_joint_ = 1;
  int num_steps_ = 0;
  std::vector<int> times_fixed_;  // per variable
};

// The model with costs of `fine` in place of infinity. `fine` is so large that each assignment with an infinite cost
// then has a larger sum than all assignments without.
CostModel WithFines(const CostModel& model, double& fine) {
  fine = 1;
  for (const CostTable& table : model.tables) {
    double low = 0, high = 0;
    for (double cost : table.costs) {
      if (cost == kNever) continue;
      low = std::min(low, cost);
      high = std::max(high, cost);
    }
    fine += high - low;
  }
  CostModel fined = model;
  for (CostTable& table : fined.tables) {
    std::vector<double> costs = table.costs.list();
    std::replace(costs.begin(), costs.end(), kNever, fine);
    table.costs = std::move(costs);
  }
  return fined;
}

}  // namespace

double Improve(const CostModel& model, double goal, double max_entries, std::vector<int>& assignment,
               double& entries) {
  const double start = entries;
  if (SumOf(model, assignment) == kNever) {
    double fine = 0;
    const CostModel fined = WithFines(model, fine);
    LocalSearch(fined, max_entries / 2, entries).Run(fine, assignment);
  }
  return LocalSearch(model, max_entries - (entries - start), entries).Run(goal, assignment);
}

}  // namespace meshwork
