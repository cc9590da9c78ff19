// Programs and data for tests of Fit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "meshwork.h"
#include "train/classifier.h"

namespace meshwork {

// The classifier's 12 examples in batches.
inline Pipeline ExampleBatches(int64_t batch_size, std::optional<uint64_t> shuffle_seed = {}) {
  return BatchesOf(Examples(12), {.batch_size = batch_size, .shuffle_seed = shuffle_seed}).value();
}

// x: f64[1] -> "loss", which is x itself. Variable "seen" holds x after the step. Variable "rate" is not changed.
inline Graph Echo() {
  Graph g(Mesh::VirtualCpus("batch=1").value());
  Value x = g.Input("x", F64, {1}, {UNSHARDED});
  Variable seen = g.Var("seen", Zeros({1}, F64), {UNSHARDED});
  Variable rate = g.Var("rate", Filled(0.5, {}, F32), {}, VarOptions{.trainable = false});
  g.Update(seen, x);
  g.Output("loss", ReduceSum(x, {0}));
  g.Output("rate_now", rate);
  return g;
}

// One batch for each number.
inline Pipeline Losses(const std::vector<double>& losses) {
  return Pipeline::FromFunction(static_cast<int64_t>(losses.size()), [losses](int64_t i) {
    return Example{{"x", Tensor::From<double>({1}, {losses[static_cast<size_t>(i)]})}};
  });
}
// An epoch for each number.
inline FitOptions EpochOfOne(const std::vector<double>& losses) {
  return {
      .epochs = static_cast<int64_t>(losses.size()), .steps_per_epoch = 1, .log = [](std::string_view) {}};
}

}  // namespace meshwork
