// The part of a graph that a loss scale adds. Part of Minimize.
#pragma once

#include <string>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/train/optim/loss_scale.h"
#include "meshwork/train/optim/optimizers.h"

namespace meshwork {

class LossScaler {
 public:
  // Adds the scale; `prefix` begins the names of its variables. REQUIRES: CheckLossScale(options).ok().
  LossScaler(Graph& graph, const LossScale& options, const std::string& prefix, CallSite loc);

  const Value& scale() const { return scale_; }
  Value Scaled(const Value& loss) const;
  // The gradients of the scaled loss become those of the loss.
  void Unscale(std::vector<VariableGradient>& gradients) const;
  // Adds the update of the scale. Returns bool[]: whether all elements of all gradients are finite.
  Value Finish(const std::vector<VariableGradient>& gradients);

 private:
  Graph& graph_;
  const LossScale options_;
  const CallSite loc_;
  Variable variable_, good_steps_;  // invalid if they never change
  Value scale_;
};

}  // namespace meshwork
