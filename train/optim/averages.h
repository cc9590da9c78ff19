// Averages of weights over the steps, which often evaluate better than the weights of the last step (Polyak and
// Juditsky, SIAM Journal on Control and Optimization 30, 1992).
//
//   Adam({}).Minimize(loss);
//   AverageWeights(g, {.decay = 0.999});           // variables "ema/NAME"
//   …
//   Evaluate(session, test, {.averages = "ema"});   // by the averages (train/optim/averages_as_weights.h)
//
// Thread safety: writes the graph.
#pragma once

#include <string>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/ir/value_list.h"

namespace meshwork {

struct AverageOptions {
  double decay = 0.999;  // in [0, 1)
  // The decay of step t, from 1, is at most (1 + t) / (10 + t), as of tf.train.ExponentialMovingAverage with
  // num_updates, so that the first weights are soon forgotten.
  bool warm_up = false;
  std::string name = "ema";  // how the names of the averages begin
};

// w̄' = decay w̄ + (1 - decay) w', where w' is the weight after the step, and w̄' = w' in the first step, as in
// torch.optim.swa_utils. An average has its weight's layout and dtype. The average of a bf16 weight is kept in f32 as
// "ema/wide/NAME", and rounded to "ema/NAME". State: "ema/step" and "ema/NAME". Returns the averages, in the order of
// the variables. The first form averages all trainable variables that the graph updates. Errors (recorded): decay out
// of range; a name that no variable can have; a variable that has no update, or is no float.
std::vector<Variable> AverageWeights(Graph& graph, const AverageOptions& options = {},
                                     CallSite loc = CallSite::Current());
std::vector<Variable> AverageWeights(const ValueList& variables, const AverageOptions& options = {},
                                     CallSite loc = CallSite::Current());

}  // namespace meshwork
