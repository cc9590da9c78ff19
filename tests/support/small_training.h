// A training of five steps, of two weights, on a mesh [batch=4, model=2].
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/runtime/exec/backend.h"
#include "meshwork/runtime/exec/executor_options.h"
#include "meshwork/runtime/tensor/tensor.h"

namespace meshwork {

struct SmallTraining {
  std::vector<double> losses;
  Tensor w, n;
};

// On data that differ in each step.
absl::StatusOr<SmallTraining> TrainSmall(Backend& backend, const ExecutorOptions& options);

}  // namespace meshwork
