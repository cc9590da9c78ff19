// A problem that is made smaller and smaller without losing its least sum. Internal.
#pragma once

#include <utility>
#include <variant>
#include <vector>

#include "meshwork/spmd/solver/condense.h"
#include "meshwork/spmd/solver/cost_model.h"
#include "meshwork/spmd/solver/reduce.h"

namespace meshwork {

// Twins are variables whose tables are equal and have the same other variables, such as weights of layers that run as
// one. They have equal best states. So all but the first of them are left out, and the tables of the first are
// multiplied by their number.
struct Twins {
  CostModel model;                         // twins have one state, and no table
  std::vector<std::pair<int, int>> twins;  // a variable that is left out, and the one that stands for it

  std::vector<int> Original(std::vector<int> assignment) const;
  std::vector<int> Into(
      std::vector<int> original) const;  // the sum may be larger where twins had different states
};

Twins JoinTwins(CostModel model);

class Shrunk {
 public:
  // model: as Reduce leaves it. max_joint: combinations that the elimination of a variable may take on the way.
  Shrunk(CostModel model, double max_joint);
  // Starts with the model of the first call of Replace.
  explicit Shrunk(double max_joint) : max_joint_(max_joint) {}

  const CostModel& model() const { return model_; }  // as Reduce leaves it
  bool IsInfeasible() const { return is_infeasible_; }
  double entries() const { return entries_; }  // combinations that were looked at

  // Goes on with `model`, which has the variables of model() and no smaller sums, for instance because states are
  // forbidden.
  void Replace(CostModel model);

  // Original maps an assignment of model() to one of the first model, with the same sum. Into is its inverse: the sum
  // is no larger, unless twins had different states. REQUIRES for Into: !IsInfeasible().
  std::vector<int> Original(std::vector<int> assignment) const;
  std::vector<int> Into(std::vector<int> original) const;

 private:
  void Reduce(CostModel model);
  void Condense();

  double max_joint_;
  double entries_ = 0;
  CostModel model_;
  bool is_infeasible_ = false;
  std::vector<std::variant<Reduced, Condensed, Twins>> steps_;  // without their models
};

}  // namespace meshwork
