// What mlp_mnist writes about a run.
#pragma once

#include "absl/status/status.h"
#include "examples/mlp_mnist/options.h"
#include "examples/mlp_mnist/training.h"
#include "meshwork.h"

namespace meshwork {

// To options.json.
absl::Status WriteJson(const Session& session, const Data& data, const MlpOptions& options,
                       const TrainLog& log);

// Loss and accuracy over the steps, to options.plot.
absl::Status WritePlot(const Session& session, const Data& data, const MlpOptions& options,
                       const TrainLog& log);

}  // namespace meshwork
