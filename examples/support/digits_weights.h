// Writes the model's weights to a file, and reads them from a file.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "examples/support/digits.h"
#include "meshwork.h"

namespace meshwork {

absl::StatusOr<int64_t> CountParameters(const DigitsModel& model, const Session& session);

// Writes the model's weights as safetensors, without the optimizer's state.
absl::Status SaveWeights(const DigitsModel& model, const Session& session, const std::string& path);

using Weights = std::vector<std::pair<std::string, Tensor>>;
// Reads weights for the model in `graph`. Errors: the file cannot be read; a weight is missing, or its type
// or shape differs from the model's; a tensor is not a weight.
absl::StatusOr<Weights> ReadWeights(const DigitsModel& model, const std::string& path, const Graph& graph);

}  // namespace meshwork
