// MinSum is a sum of cost tables over discrete variables. Minimize finds states of the variables that make it small.
//
//   MinSum problem;
//   const int x = problem.AddVariable(2), y = problem.AddVariable(2);
//   problem.AddTable({x}, {0, 3});           // 0 where x is 0, 3 where x is 1
//   problem.AddTable({x, y}, {5, 6, 0, 1});  // row-major: the states of y are next to each other
//   Minimize(problem).assignment             // {1, 0}: 3 + 0
//
// This is the weighted constraint satisfaction problem, or the most probable states of a factor graph. It is NP-hard in
// general. Problems of small width, as chains and trees of small tables are, are solved exactly in time linear in their
// number of variables, by bucket elimination (Dechter, "Bucket elimination: a unifying framework for reasoning",
// Artificial Intelligence 113, 1999). States that another one always beats are dropped before, if that may pay
// (Goldstein, "Efficient rotamer elimination applied to protein side-chains", Biophysical Journal 66, 1994). Where
// elimination would take too many entries, the result is an assignment and a bound of how far it may be from the
// optimum: by local search of exact steps, sequential message passing (Kolmogorov, PAMI 28, 2006, and PAMI 37, 2015)
// and mini-buckets (Dechter and Rish, Journal of the ACM 50, 2003). With the bounds, states are dropped that are too
// dear to be in a better assignment (reduced cost fixing), so that many wide problems are solved exactly, too.
//
// Results are the same in every run. Nothing here is shared between threads: several may minimize at a time.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace meshwork {

// A list of costs that does not change. Copies share it; so tables of repeated layers need little memory.
class CostList {
 public:
  CostList() : CostList(std::vector<double>()) {}
  CostList(std::vector<double> list)  // NOLINT: implicit
      : list_(std::make_shared<const std::vector<double>>(std::move(list))) {}
  CostList(std::initializer_list<double> list) : CostList(std::vector<double>(list)) {}

  const std::vector<double>& list() const { return *list_; }
  size_t size() const { return list_->size(); }
  const double* data() const { return list_->data(); }
  double operator[](size_t i) const { return (*list_)[i]; }
  auto begin() const { return list_->begin(); }
  auto end() const { return list_->end(); }

 private:
  std::shared_ptr<const std::vector<double>> list_;
};

// A cost for each combination of states of some variables: row-major, the last variable fastest.
struct CostTable {
  std::vector<int> variables;  // distinct
  CostList costs;
};

// Tables over variables that are numbered from 0.
struct CostModel {
  std::vector<int> states;  // per variable: how many it has; 0 if all were forbidden and dropped
  std::vector<CostTable> tables;
};

class MinSum {
 public:
  // A variable of so many states (>= 1). Returns its index, counted from 0.
  int AddVariable(int states);

  // costs: row-major over the states of `variables`, the last one fastest; each is finite and >= 0, or infinity where
  // the combination may not be. `variables` are distinct; without any, it is one constant.
  void AddTable(std::vector<int> variables, CostList costs);

  int num_variables() const { return static_cast<int>(model_.states.size()); }
  int states(int variable) const { return model_.states[variable]; }
  const std::vector<int>& states() const { return model_.states; }
  const std::vector<CostTable>& tables() const { return model_.tables; }
  const CostModel& model() const { return model_; }

  // The sum of all tables. assignment: a state per variable.
  double CostOf(std::span<const int> assignment) const;

 private:
  CostModel model_;
};

struct MinSumOptions {
  // About how many entries of tables the solver may compute: a unit of its time, 1e9 are about a second or two. An
  // elimination that takes more, or more than 2e9, is not tried. It holds at most 8 bytes per entry, most often far
  // less, and the problem's own tables a few times, or 24 times where branches are deep (spmd/solver/bounded_search.h).
  int64_t max_entries = 500'000'000;
  // A known assignment to start from, where exact elimination takes too many entries. The result costs no more. Empty:
  // none.
  std::vector<int> start = {};
  // All variables, with those that share tables near each other: messages then go far in one pass. Empty: as they are
  // numbered.
  std::vector<int> order = {};
};

struct MinSumResult {
  std::vector<int> assignment;  // a state per variable
  double cost = 0;          // CostOf(assignment); infinity if none was found, or there is none, that may be
  double lower_bound = 0;   // no assignment costs less, up to rounding; infinity if none may be
  bool is_optimal = false;  // cost and lower_bound agree to 1e-9 of the cost
  double entries = 0;       // about how many entries of tables were looked at
};

// An assignment of small cost: of least cost, if problem and max_entries allow. Of states that cost the same, the one
// of lower index is preferred, so the caller puts first what it likes best; this is decided variable by variable, in
// the order of elimination.
MinSumResult Minimize(const MinSum& problem, const MinSumOptions& options = {});

}  // namespace meshwork
