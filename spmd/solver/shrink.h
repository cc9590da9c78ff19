// A problem that is made smaller and smaller without losing its least sum. Internal.
#pragma once

#include <utility>
#include <variant>
#include <vector>

#include "meshwork/spmd/solver/condense.h"
#include "meshwork/spmd/solver/cost_model.h"
#include "meshwork/spmd/solver/reduce.h"

namespace meshwork {

// Variables whose tables are equal, with the same other variables, have equal best states: all but the first of them are
// left out, as the weights of layers that run as one are, and the tables of that one count as often as there are some.
struct Twins {
  CostModel model;                         // twins have one state, and no table
  std::vector<std::pair<int, int>> twins;  // and of which variable

  std::vector<int> Original(std::vector<int> assignment) const;
  std::vector<int> Into(
      std::vector<int> original) const;  // the sum may be larger where twins had different states
};

Twins JoinTwins(CostModel model);

class Shrunk {
 public:
  // model: as Reduce leaves it. max_joint: combinations that the elimination of a variable may take on the way.
  Shrunk(CostModel model, double max_joint);
  // Of the model that Replace is called with first.
  explicit Shrunk(double max_joint) : max_joint_(max_joint) {}

  const CostModel& model() const { return model_; }  // as Reduce leaves it
  bool IsInfeasible() const { return is_infeasible_; }
  double entries() const { return entries_; }  // combinations that were looked at

  // `model`: over the variables of model(), with no smaller sums, as of fewer states. Shrinks it further.
  void Replace(CostModel model);

  // From an assignment of model() to one of the first model, whose sum is the same; and the other way, where the sum is
  // no larger, but for twins that had different states. REQUIRES for Into: !IsInfeasible().
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
