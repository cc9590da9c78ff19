// The weights of a model, and those in a file.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "examples/support/digits.h"
#include "meshwork/core.h"

namespace meshwork {

int64_t CountParameters(const DigitsModel& model, const Graph& graph);

using Weights = std::vector<std::pair<std::string, Tensor>>;
// The model's weights, whole, without the optimizer's state. All processes must call it.
absl::StatusOr<Weights> WeightsOf(const DigitsModel& model, const Session& session);

// Reads weights for the model in `graph`. Errors: the file cannot be read; a weight is missing, or its type
// or shape differs from the model's; a tensor is not a weight.
absl::StatusOr<Weights> ReadWeights(const DigitsModel& model, const std::string& path, const Graph& graph);

}  // namespace meshwork
